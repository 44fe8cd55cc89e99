"""The instructor's tables: marks by student, by question, and as learning platforms take them in.

For a platform there is a row for each student and a column for each lesson. A mark is left out while an answer of it
waits for a person, and where nothing was handed in: platforms take an empty cell for no mark. Addresses and ids must be
those that the platform knows, as in the list of students.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from marking.autograde import Row, grades_of, rows
from marking.course import Course, write

Marks = Mapping[str, Sequence[Row]]  # of each lesson
PERSON = ["student", "first_name", "last_name", "email"]
COLUMNS = [
    *PERSON, "lesson", "auto", "manual", "late_days", "penalty", "total", "max", "to_mark_by_hand", "needs_a_look",
]  # fmt: skip


def grades(course: Course, lessons: list[str]) -> tuple[list[str], dict[str, list[Row]]]:
    """Write grades.csv, with a line for each student and lesson, and what learning platforms take in.

    Return the paths, and the rows by lesson.
    """
    marks = {lesson: rows(course, lesson) for lesson in lessons}
    tables = {"grades.csv": _table(marks), "grades-moodle.csv": moodle(marks), "grades-canvas.csv": canvas(marks)}
    for name, table in tables.items():
        write(course.folder / name, table.to_csv(index=False))
    return [str(course.folder / name) for name in tables], marks


def questions(course: Course, lesson: str, marks: Sequence[Row]) -> pd.DataFrame:
    """Return how a class fared in each graded cell of a lesson.

    A row has the cell's points, the mean of the answers that are marked, and how many students have all of the points,
    a part or none, and how many wait for a mark.
    """
    with course.gradebook() as gradebook:
        found = pd.DataFrame(
            [
                (grade.name, grade.max_score, None if unmarked(grade) else grade.score / (grade.max_score or 1))
                for row in marks
                if row.auto is not None
                for grade in grades_of(gradebook, lesson, row.student.id)
            ],
            columns=["question", "points", "share"],
        ).astype({"share": float})
    found["all"], found["none"], found["not marked yet"] = found.share == 1, found.share == 0, found.share.isna()
    found["part"] = ~(found["all"] | found["none"] | found["not marked yet"])
    by = found.groupby("question")
    mean = by.share.mean().map("{:.0%}".format, na_action="ignore").fillna("–").rename("mean")
    return pd.concat([by.points.first(), mean, by[["all", "part", "none", "not marked yet"]].sum()], axis=1)


def unmarked(grade) -> bool:
    """Return whether neither a test nor a person has given points."""
    return grade.auto_score is None and grade.manual_score is None


def moodle(marks: Marks) -> pd.DataFrame:
    """Moodle's grade import (*Grades, Import, CSV file*): map “Email address” or “ID number”, and each lesson."""
    names = {"first_name": "First name", "last_name": "Last name", "student": "ID number", "email": "Email address"}
    return _by_lesson(marks).rename(columns=names)[[*names.values(), *marks]]


def canvas(marks: Marks) -> pd.DataFrame:
    """Canvas's gradebook (*Import*), which knows students by their logins: ids in the list have to be these."""
    found = _by_lesson(marks)
    names = (found.last_name + ", " + found.first_name).str.strip(", ")
    found["Student"], found["SIS Login ID"] = names.where(names != "", found.student), found.student
    points = {"Student": "    Points Possible"} | {lesson: f"{rows[0].max:g}" for lesson, rows in marks.items() if rows}
    columns = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *marks]
    return pd.concat([pd.DataFrame([points]), found]).reindex(columns=columns).fillna("")


def safe(value: str) -> str:
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value


def _table(marks):
    records = []
    for lesson, found in marks.items():
        for row in found:
            person = map(safe, (row.student.id, row.student.first_name, row.student.last_name, row.student.email))
            points = (row.auto, row.manual, row.days_late, row.penalty, row.total, row.max, row.waiting)
            records.append((*person, lesson, *points, safe("; ".join(row.reasons))))
    return pd.DataFrame(records, columns=COLUMNS)


def _by_lesson(marks):
    """Return a row for each student, with a mark for each lesson as text."""
    table = _table(marks)
    table["mark"] = table.total.where(table.to_mark_by_hand == 0).map("{:g}".format, na_action="ignore")
    return table.pivot(index=PERSON, columns="lesson", values="mark").fillna("").reset_index()
