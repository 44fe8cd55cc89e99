"""The students of a course, in their list and in the gradebook."""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

from ddl.errors import InputError
from marking.course import Course, MarkingError

COLUMNS = ("id", "first_name", "last_name", "email")
ID = re.compile(r"[^\W_][\w.@-]{0,49}")  # it becomes a folder's name, and a part of others


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
                f"the id {self.id[:60]!r}: an id has up to 50 letters, digits and . _ @ -, and begins with a letter "
                "or digit"
            )


def read(path: Path) -> list[Student]:
    """Read a CSV file of students with the columns id, first_name, last_name, email, as spreadsheets write it.

    Raises MarkingError, with the line, if a row cannot be read or used.
    """
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise MarkingError(f"the list of students {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise MarkingError(f"{path}, line {line}: it is not UTF-8: save it as “CSV UTF-8”") from None
    separator = max(",;\t", key=text.partition("\n")[0].count)
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    found: dict[str, Student] = {}
    try:
        table.fieldnames = ["_".join(name.split()).casefold() for name in table.fieldnames or ()]
        if "id" not in table.fieldnames:
            raise InputError(f"its first line must name these columns: {','.join(COLUMNS)}")
        for row in table:
            values = {name: " ".join((row.get(name) or "").split()) for name in COLUMNS}
            if any(values.values()):
                student = Student(**values)
                if found.setdefault(student.id.casefold(), student) is not student:
                    raise InputError(f"the id {student.id} appears twice")
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
    """The students in the gradebook, sorted by id."""
    with course.gradebook() as gradebook:
        found = [[getattr(each, name) or "" for name in COLUMNS] for each in gradebook.students]
    return [Student(*each) for each in sorted(found)]
