"""The people of a course, as their list has them and the gradebook keeps them."""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from marking.course import Course, MarkingError

__all__ = ["Student", "enrol", "read", "students"]

COLUMNS = ("id", "first_name", "last_name", "email")
ID = re.compile(r"[^\W_][\w.@-]*")  # it becomes a folder's name


@dataclass(frozen=True)
class Student:
    """One person; only the id has to be there."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""

    def __post_init__(self):
        if not ID.fullmatch(self.id):
            raise ValueError(
                f"the id {self.id!r}: it can have letters, digits and any of . _ @ - after the "
                "first of them"
            )


def read(path: Path) -> list[Student]:
    """Read a list of students: a CSV file with the columns id, first_name, last_name, email."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise MarkingError(f"the list of students {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise MarkingError(f"{path} is not UTF-8: save it as “CSV UTF-8”") from None
    lines = text.splitlines()
    first = lines[0] if lines else ""
    mark = max(",;\t", key=first.count)
    rows = csv.DictReader(lines, delimiter=mark)
    if "id" not in (rows.fieldnames or []):
        raise MarkingError(f"{path} has no column “id”: its first line has to be "
                           f"{','.join(COLUMNS)}")
    found: dict[str, Student] = {}
    for row in rows:
        values = {name: (row.get(name) or "").strip() for name in COLUMNS}
        if not any(values.values()):
            continue
        try:
            student = Student(**values)
        except ValueError as error:
            raise MarkingError(f"{path}, line {rows.line_num}: {error}") from None
        if student.id.casefold() in found:
            raise MarkingError(f"{path}, line {rows.line_num}: the id {student.id} is there twice")
        found[student.id.casefold()] = student
    if not found:
        raise MarkingError(f"{path} names no student")
    return list(found.values())


def enrol(course: Course, people: list[Student]) -> None:
    """Put people into the gradebook, or change there what is known of them."""
    with course.gradebook() as gradebook:
        for person in people:
            gradebook.update_or_create_student(
                person.id, first_name=person.first_name, last_name=person.last_name,
                email=person.email)


def students(course: Course) -> list[Student]:
    """The people in the gradebook, in the order of their ids."""
    with course.gradebook() as gradebook:
        return sorted(
            (Student(s.id, s.first_name or "", s.last_name or "", s.email or "")
             for s in gradebook.students),
            key=lambda student: student.id,
        )
