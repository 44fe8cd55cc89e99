"""The instructor's tables: marks by student, by question, and as learning platforms take them in.

For a platform there is a row for each student and a column for each lesson. A mark is left out while an answer of it
waits for a person, and where nothing was handed in: platforms take an empty cell for no mark. Addresses and ids must be
those that the platform knows, as in the list of students.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from marking.autograde import Row, grades_of, rows
from marking.course import Course, write

Marks = Mapping[str, Sequence[Row]]  # of each lesson
COLUMNS = (
    "student", "first_name", "last_name", "email", "lesson", "auto", "manual", "late_days", "penalty", "total", "max",
    "to_mark_by_hand", "needs_a_look",
)  # fmt: skip


def grades(course: Course, lessons: list[str]) -> tuple[list[str], dict[str, list[Row]]]:
    """Write grades.csv, with a line for each student and lesson, and what learning platforms take in.

    Return the paths, and the rows by lesson.
    """
    marks = {lesson: rows(course, lesson) for lesson in lessons}
    table = [COLUMNS]
    for lesson, found in marks.items():
        for row in found:
            person = row.student
            points = (row.auto, row.manual, row.days_late, row.penalty, row.total, row.max, row.waiting)
            known = map(safe, (person.id, person.first_name, person.last_name, person.email))
            table.append([*known, lesson, *points, safe("; ".join(row.reasons))])
    texts = {"grades.csv": csv_text(table)}
    texts |= {f"grades-{name}.csv": write_of(marks) for name, write_of in PLATFORMS.items()}
    for name, content in texts.items():
        write(course.folder / name, content)
    return [str(course.folder / name) for name in texts], marks


def questions(course: Course, lesson: str, marks: Sequence[Row]) -> list[tuple]:
    """Return how a class fared in each graded cell of a lesson.

    A row has the cell's name and points, the mean of the answers that are marked, and how many students have all of the
    points, a part or none, and how many wait for a mark.
    """
    marked = [row.student.id for row in marks if row.auto is not None]
    points, most = defaultdict(list), {}
    with course.gradebook() as gradebook:
        for student in marked:
            for grade in grades_of(gradebook, lesson, student):
                unmarked = grade.auto_score is None and grade.manual_score is None
                points[grade.name].append(None if unmarked else grade.score)
                most[grade.name] = grade.max_score
    table = []
    for name in sorted(points):
        known = [score for score in points[name] if score is not None]
        mean = f"{sum(known) / len(known) / most[name]:.0%}" if known and most[name] else "–"
        full, none = known.count(most[name]), known.count(0)
        rest = (full, len(known) - full - none, none, len(points[name]) - len(known))
        table.append((name, f"{most[name]:g}", mean, *rest))
    return table


# ---------------------------------------------------------------- learning platforms


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
