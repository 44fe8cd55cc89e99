"""Marks as learning platforms take them in: a row for each student, a column for each lesson.

A mark is left out while an answer of it waits for a person, and where nothing was handed in: platforms take an empty
cell for no mark. Addresses and ids must be those that the platform knows, as in the list of students.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from marking.autograde import Row

Marks = Mapping[str, Sequence[Row]]  # of each lesson


def moodle(marks: Marks) -> str:
    """Moodle's grade import (*Grades, Import, CSV file*): map “Email address” or “ID number”, and each lesson."""
    table = [["First name", "Last name", "ID number", "Email address", *marks]]
    for person, points in _by_student(marks):
        known = map(safe, (person.first_name, person.last_name, person.id, person.email))
        table.append([*known, *points])
    return csv_text(table)


def canvas(marks: Marks) -> str:
    """Canvas's gradebook (*Import*), which knows students by their logins: ids in the list have to be these."""
    table = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *marks]]
    most = [f"{rows[0].max:g}" if rows else "" for rows in marks.values()]
    table.append(["    Points Possible", "", "", "", "", *most])
    for person, points in _by_student(marks):
        name = ", ".join(filter(None, (person.last_name, person.first_name))) or person.id
        table.append([safe(name), "", "", person.id, "", *points])
    return csv_text(table)


PLATFORMS = {"moodle": moodle, "canvas": canvas}


def safe(value: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value


def _by_student(marks):
    """Yield each student, sorted by id, with a text for each lesson."""
    people = {row.student.id: row.student for rows in marks.values() for row in rows}
    known = {(lesson, row.student.id): _mark(row) for lesson, rows in marks.items() for row in rows}
    for name in sorted(people):
        yield people[name], [known.get((lesson, name), "") for lesson in marks]


def _mark(row):
    return "" if row.total is None or row.waiting else f"{row.total:g}"


def csv_text(table: Iterable[Sequence]) -> str:
    """Return rows as the text of a CSV file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(table)
    return text.getvalue()
