"""The instructor's tables: marks by student, by question, and as learning platforms take them in.

For a platform there is a row for each student and a column for each lesson. A mark is left out while an answer of it
waits for a person, and where nothing was handed in: platforms take an empty cell for no mark. Addresses and ids must be
those that the platform knows, as in the list of students.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from marking.autograde import Row, rows
from marking.course import Course, write

Marks = Mapping[str, Sequence[Row]]  # of each lesson
COLUMNS = (
    "student", "first_name", "last_name", "email", "lesson", "auto", "manual", "late_days", "penalty", "total", "max",
    "to_mark_by_hand", "needs_a_look",
)  # fmt: skip
GROUPS = ("all", "part", "none", "not_marked_yet")


@dataclass(frozen=True)
class Question:
    """How a class fared in one graded cell."""

    name: str  # nbgrader's grade_id
    max: float  # points
    points: dict[str, float | None]  # by student; None waits for a person

    @property
    def mean(self) -> float | None:
        """Points of the answers that are marked, as a share of the most."""
        known = [points for points in self.points.values() if points is not None]
        return sum(known) / len(known) / self.max if known and self.max else None

    @property
    def groups(self) -> dict[str, list[str]]:
        """The students who have all points, part of them or none, and those who wait for a mark."""
        groups = {name: [] for name in GROUPS}
        for student, points in sorted(self.points.items()):
            name = "not_marked_yet" if points is None else {self.max: "all", 0.0: "none"}.get(points, "part")
            groups[name].append(student)
        return groups


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


def questions(course: Course, lesson: str, marks: Sequence[Row]) -> list[Question]:
    """A lesson's graded cells, with the points of everybody whose hand-in is marked."""
    marked = [row.student.id for row in marks if row.auto is not None]
    points: dict[str, dict] = {}
    most = {}
    with course.gradebook() as gradebook:
        for student in marked:
            for notebook in gradebook.find_submission(lesson, student).notebooks:
                for grade in notebook.grades:
                    unmarked = grade.auto_score is None and grade.manual_score is None
                    points.setdefault(grade.name, {})[student] = None if unmarked else grade.score
                    most[grade.name] = grade.max_score
    return [Question(name, most[name], points[name]) for name in sorted(points)]


def figures(question: Question) -> tuple[str, ...]:
    """A question's row in a table: its name, points, the mean, and how many students have all, part or none of them."""
    mean = "–" if question.mean is None else f"{question.mean:.0%}"
    return question.name, f"{question.max:g}", mean, *(str(len(group)) for group in question.groups.values())


def write_questions(course: Course, lesson: str, found: Sequence[Question]) -> str:
    """Write who has all points of each question, who has none and who waits; return the path."""
    table = [("question", "max", "mean", *GROUPS)]
    for each in found:
        groups = (" ".join(map(safe, group)) for group in each.groups.values())
        table.append((each.name, f"{each.max:g}", "" if each.mean is None else f"{each.mean:.2f}", *groups))
    path = course.folder / f"questions-{lesson}.csv"
    write(path, csv_text(table))
    return str(path)


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
