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
    "id,first_name,last_name,email\rann,Ann,Ames,a@x.org\r",
    'id,last_name,first_name,email,note\nann,"Ames\n",Ann,a@x.org,"one\ntwo"\n',
    "id,first_name,last_name,email,note\nann,Ann,Ames,a@x.org,one\x85two\x0cthree\n",
]
WRONG = {
    "name\nann\n": "first line",
    "id\n": "names no student",
    "id\n../x\n": "line 2: the id '../x'",
    "id,id\nann,bob\n": "first line",
    '\ufeffid,first_name\nann,Ann\ncyd,"C"x\nbob,Bob\n': "line 3: .*expected after",
    'id,first_name\nann,Ann\ncyd,"Cyd\nbob,Bob\n': "unexpected end",
    f"id\nann\n{'x' * 200_000}\n": "line 3: field larger",
}


@pytest.mark.parametrize("coding", ["utf-8", "utf-16", "utf-16-be"])
def test_a_list_as_spreadsheets_write_it(tmp_path, coding):
    path = tmp_path / "list.csv"
    for text in LISTS:
        path.write_bytes(("\ufeff" * coding.endswith("be") + text).encode(coding))
        assert students.read(path) == ([ANN], []), text


def test_a_wrong_list_is_refused_with_the_line(tmp_path):
    path = tmp_path / "list.csv"
    for text, reason in WRONG.items():
        path.write_text(text)
        with pytest.raises(MarkingError, match=reason):
            students.read(path)
    path.write_bytes("id,first_name\nann,Ännchen\n".encode("latin-1"))
    with pytest.raises(MarkingError, match="not UTF-8"):
        students.read(path)


def test_a_wrong_row_costs_no_other(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(f"id\nann\n{'x' * 300}\n\n../x\nANN\nbob\n")
    found, problems = students.read(path)
    assert [student.id for student in found] == ["ann", "bob"]
    assert [row.partition(", ")[2][:6] for row in problems] == ["line 3", "line 5", "line 6"]
