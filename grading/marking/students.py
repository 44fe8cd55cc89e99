"""The students of a course, in their list and in the gradebook."""

import csv
import io
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ddl.errors import InputError
from marking.course import Course, MarkingError

COLUMNS = ("id", "first_name", "last_name", "email")
ID = re.compile(r"[^\W_][\w.@-]*")  # it becomes a folder's name
ID_BYTES = 100  # and a part of other names
SEPARATOR = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # a line that spreadsheets put first
BYTE_ORDER = re.compile(rb"\xff\xfe|\xfe\xff")  # how UTF-16 begins


@dataclass(frozen=True)
class Student:
    """One student; only the id is required."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""

    def __post_init__(self):
        if not ID.fullmatch(self.id):
            raise InputError(
                f"the id {self.id!r}: an id begins with a letter or digit; letters, digits and . _ @ - may follow"
            )
        if len(self.id.encode()) > ID_BYTES:
            raise InputError(
                f"the id {self.id[:20]}… has {len(self.id)} characters: at most {ID_BYTES} are allowed, "
                "fewer where they are not English letters"
            )


def read(path: Path) -> tuple[list[Student], list[str]]:
    """Read a CSV file of students with the columns id, first_name, last_name, email.

    Return the students, and the problems of the rows that are left out; a file without a valid row, or with quotes that
    do not match, is a MarkingError.
    """
    found: dict[str, Student] = {}
    problems = []
    for line, values in _rows(path):
        try:
            student = Student(**values)
            if student.id.casefold() in found:
                raise InputError(f"the id {student.id} appears twice")
        except InputError as error:
            problems.append(f"{path}, line {line}: {error}")
        else:
            found[student.id.casefold()] = student
    if not found:
        raise MarkingError(problems[0] if problems else f"{path} names no student")
    return list(found.values()), problems


def _rows(path):
    """Yield (line number, known columns) for each non-empty row of a CSV file."""
    content = io.StringIO(_text(path), newline="")
    start, separators = 0, ",;\t"
    while (first := content.readline()) and (not first.strip() or SEPARATOR.fullmatch(first)):
        start, separator = content.tell(), SEPARATOR.fullmatch(first)
        separators = separator[1] if separator else separators
    separator = max(separators, key=first.count)
    before = content.getvalue()[:start].count("\n")
    content.seek(start)
    table = csv.reader(content, delimiter=separator, skipinitialspace=True, strict=True)
    try:
        rows = [(before + table.line_num, row) for row in table]
    except csv.Error as error:
        raise MarkingError(f"{path}, line {before + table.line_num}: {error}") from None
    names = ["_".join(name.split()).casefold() for name in (rows[0][1] if rows else ())]
    for name in COLUMNS:
        if names.count(name) > 1 or (name == "id" and name not in names):
            count = "more than one column" if name in names else "no column"
            raise MarkingError(f"{path} has {count} “{name}”: its first line must be {','.join(COLUMNS)}")
    for line, cells in rows[1:]:
        row = dict(zip(names, cells, strict=False))
        values = {name: " ".join(row.get(name, "").split()) for name in COLUMNS}
        if any(values.values()):
            yield line, values


def _text(path):
    try:
        content = path.read_bytes()
        return content.decode("utf-16" if BYTE_ORDER.match(content) else "utf-8").lstrip("\ufeff")
    except OSError as error:
        raise MarkingError(f"the list of students {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MarkingError(f"{path} is not UTF-8: save it as “CSV UTF-8”") from None


def enrol(course: Course, people: list[Student]) -> None:
    """Add students to the gradebook, or update them."""
    with course.gradebook() as gradebook:
        for person in people:
            gradebook.update_or_create_student(
                person.id, first_name=person.first_name, last_name=person.last_name, email=person.email
            )


def students(course: Course) -> list[Student]:
    """The students in the gradebook, sorted by id; the formgrader allows invalid ids, which are left out."""
    found = []
    with course.gradebook() as gradebook:
        for each in gradebook.students:
            with suppress(InputError):
                found.append(Student(each.id, each.first_name or "", each.last_name or "", each.email or ""))
    return sorted(found, key=lambda student: student.id)
