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
            raise InputError(f"the id {self.id[:20]}… has more than {ID_BYTES} bytes")


def read(path: Path) -> list[Student]:
    """Read a CSV file of students with the columns id, first_name, last_name, email, as spreadsheets write it.

    Raises MarkingError, with the line, if a row cannot be read or used.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise MarkingError(f"the list of students {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MarkingError(f"{path} is not UTF-8: save it as “CSV UTF-8”") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    found: dict[str, Student] = {}
    try:
        table.fieldnames = names = ["_".join(name.split()).casefold() for name in table.fieldnames or ()]
        if names.count("id") != 1 or any(names.count(name) > 1 for name in COLUMNS):
            raise InputError(f"its first line must name these columns, each once: {','.join(COLUMNS)}")
        for row in table:
            values = {name: " ".join((row.get(name) or "").split()) for name in COLUMNS}
            if not any(values.values()):
                continue
            student = Student(**values)
            if student.id.casefold() in found:
                raise InputError(f"the id {student.id} appears twice")
            found[student.id.casefold()] = student
    except (csv.Error, InputError) as error:
        raise MarkingError(f"{path}, line {table.reader.line_num}: {error}") from None
    if not found:
        raise MarkingError(f"{path} names no student")
    return list(found.values())


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
