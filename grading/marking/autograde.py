"""Mark hand-ins one by one, and read the marks from the gradebook."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde

import course.grader
from marking import lanes, preprocessors, sandbox, superseded
from marking.collect import STAMP
from marking.course import Course, MarkingError, one, plain
from marking.due import days_late, due
from marking.preprocessors import LIMITS
from marking.students import students

STUDENT_S = LIMITS.total_s + 120  # for grading a hand-in, and nbgrader's work around it
CODE = [*Path(course.grader.__file__).parent.glob("*.py"), Path(preprocessors.__file__)]  # what decides on marks


@dataclass(frozen=True)
class Row:
    """One student's marks in one lesson, in points."""

    student: object
    auto: float | None  # given by tests; None without a marked hand-in
    manual: float | None  # given by a person
    max: float  # what the lesson is worth
    waiting: int  # written answers without a mark
    reasons: list[str]  # why a person should look at it
    handed_in: bool = False
    days_late: int = 0
    penalty: float = 0.0  # for being late

    @property
    def total(self) -> float | None:
        return None if self.auto is None else self.auto + self.manual - self.penalty


def autograde(course: Course, lesson: str, student: str = "", anew: bool = False) -> tuple[list[str], list[str]]:
    """Mark the hand-ins of a lesson that are new, or whose tests have changed, several at a time on all cores.

    nbgrader's converter marks each in a separate process, with a line that shows the progress. Problems go to the
    hand-in's notes. A person's marks stay if the answer is unchanged. With `student` only that one is marked, changed
    or not; with `anew` everyone is. Return whose hand-ins are as they were when they were marked last, and who is not
    in the gradebook.
    """
    sandbox.find()
    known = {person.id for person in students(course)}
    handed_in = course.handed_in(lesson)
    everyone = [name for name in handed_in if name in known]
    if not everyone:
        raise MarkingError(f"no hand-ins of {lesson} in {course.folder}: `make collect` first")
    if student:
        everyone = [one(student, everyone, f"handed in {lesson}", "nobody", "STUDENT")]
    chosen = [
        name
        for name in everyone
        if student or anew or course.notes(lesson, name).version != _version(course, lesson, name)
    ]
    app = course.nbgrader()

    def mark(name):
        before = replace(course.notes(lesson, name), marked=("marking it was not completed",), failed=True, version="")
        course.note(lesson, name, before)
        superseded.set_aside(course, lesson, name)
        _mark(course, app, lesson, name)

    def done(name, failure, log):
        if failure:
            course.check_room()
            notes = (f"it could not be marked: {failure}; see {log}",)
        else:
            notebook = nbformat.read(course.notebook("autograded", lesson, name), 4)
            notes = tuple(notebook.metadata["examination"]["notes"])
        version = "" if failure else _version(course, lesson, name)
        course.note(
            lesson, name, replace(course.notes(lesson, name), marked=notes, failed=bool(failure), version=version)
        )
        row = rows(course, lesson, only=name)[0]
        mark_of = "not marked" if row.auto is None else f"{row.total:g} of {row.max:g}"
        return f"{mark_of:<12} {'look' if row.reasons else '':<5}"

    lanes.each(course, app, f"marking {lesson}", chosen, mark, done, STUDENT_S)
    return sorted({*everyone} - {*chosen}), [name for name in handed_in if name not in known]


def _version(course, lesson, student):
    """A checksum of all that a hand-in's marks depend on."""
    found = hashlib.sha256()
    submitted = course.notebook("submitted", lesson, student)
    inputs = (course.notebook("source", lesson), course.settings, submitted, submitted.with_name(STAMP))
    for path in (*sorted(CODE), *inputs):
        found.update(path.read_bytes() if path.exists() else b"")
    with course.gradebook() as gradebook:
        when = dict(due(gradebook, lesson))
    found.update(str(when.get(student, when.get("everybody"))).encode())
    return found.hexdigest()


def rows(course: Course, lesson: str, only: str | None = None) -> list[Row]:
    """The current marks of everybody in the gradebook, or of one student."""
    people = [person for person in students(course) if only in (None, person.id)]
    with course.gradebook() as gradebook:
        total = gradebook.find_assignment(lesson).max_score
        handed_in = course.handed_in(lesson)
        return [_row(course, gradebook, lesson, person, total, person.id in handed_in) for person in people]


def _row(course, gradebook, lesson, person, total, handed_in):
    notes = course.notes(lesson, person.id)
    reasons = [*notes.reasons, *_asked(course, lesson, person.id)]
    unmarked_row = Row(person, None, None, total, 0, reasons, handed_in)
    if notes.failed:
        return unmarked_row
    try:
        submission = gradebook.find_submission(lesson, person.id)
    except MissingEntry:
        return unmarked_row
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    by_hand = [grade for grade in grades if grade.manual_score is not None]
    unmarked = [grade for grade in grades if grade.auto_score is None and grade.manual_score is None]
    if unmarked == grades and not course.notebook("autograded", lesson, person.id).exists():
        return unmarked_row  # an extension makes a submission, too
    auto = sum(grade.score for grade in grades if grade.manual_score is None)
    given = {grade.name for grade in by_hand} | {
        comment.name for notebook in submission.notebooks for comment in notebook.comments if comment.manual_comment
    }
    again = [reason for name, reason in notes.aside.items() if name not in given]
    return Row(
        person,
        auto,
        manual=sum(grade.score for grade in by_hand),
        max=total,
        waiting=len(unmarked),
        reasons=[*reasons, *again],
        handed_in=handed_in,
        days_late=days_late(submission.total_seconds_late),
        penalty=sum(notebook.late_submission_penalty or 0 for notebook in submission.notebooks),
    )


def _asked(course, lesson, student):
    """What somebody asks to be looked at again, as a reason to look."""
    path = course.request(lesson, student)
    if not path.exists():
        return []
    text = " ".join(path.read_text(errors="replace").split())
    return [f"asks for another look (delete {path} when it is answered): {plain(text[:300])}"]


def _mark(course, app, lesson, student):
    app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
    converter = Autograde(coursedir=app.coursedir, parent=app)
    # Overwrite what an earlier marking left, even an interrupted one.
    converter.force = True
    converter.create_student = False
    converter.start()
