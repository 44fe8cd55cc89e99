"""The list of students, as spreadsheets write it and people break it."""

import pytest

from marking import students
from marking.course import MarkingError
from marking.students import Student

ANN = Student("ann", "Ann", "Ames", "a@x.org")
LISTS = [
    "id,first_name,last_name,email\nann,Ann,Ames,a@x.org\n",
    "\ufeffid;last_name;first_name;email;group\r\nann;Ames;Ann;a@x.org;3\r\n\r\n",
    "id\tfirst_name\tlast_name\temail\nann\tAnn\tAmes\ta@x.org\n",
    "ID, First Name,Last  name,email\n\nann, Ann,Ames,a@x.org\n",
    'id,last_name,first_name,email,note\nann,"Ames\n",Ann,a@x.org,"one\ntwo"\n',
]
WRONG = {
    "name\nann\n": "first line",
    "id\n": "names no student",
    "id\nann\n../x\n": "line 3: the id '../x'",
    "id\nann\nANN\n": "line 3: .*twice",
    f"id\n{'x' * 300}\n": "line 2: the id 'xxx",
    'id,first_name\nann,Ann\ncyd,"C"x\nbob,Bob\n': "line 3: .*expected after",
    'id,first_name\nann,Ann\ncyd,"Cyd\nbob,Bob\n': "unexpected end",
    f"id\nann\n{'x' * 200_000}\n": "line 3: field larger",
}


def test_student_list_from_spreadsheets_is_read(tmp_path):
    path = tmp_path / "list.csv"
    for text in LISTS:
        path.write_bytes(text.encode())
        assert students.read(path) == [ANN], text


def test_wrong_student_list_is_refused_with_its_line(tmp_path):
    path = tmp_path / "list.csv"
    for text, reason in WRONG.items():
        path.write_text(text)
        with pytest.raises(MarkingError, match=reason):
            students.read(path)
    path.write_bytes("id,first_name\nann,Ännchen\n".encode("latin-1"))
    with pytest.raises(MarkingError, match="line 2.*not UTF-8"):
        students.read(path)
