"""Marking of hand-ins, and marks from the gradebook."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde
from nbgrader.preprocessors import AssignLatePenalties

import course.grader
from course.grader.cells import answers_of
from course.grader.grade import IN_HIDDEN
from course.lab.notebooks import the_one
from marking import preprocessors, process_pool, sandbox
from marking.course import Course, MarkingError, plain
from marking.due import days_late, due
from marking.preprocessors import LIMITS
from marking.students import students
from marking.zip_plugins import STAMP

STUDENT_S = LIMITS.total_s + 120  # for grading a hand-in, and nbgrader's work around it
CODE = [*Path(course.grader.__file__).parent.glob("*.py"), Path(preprocessors.__file__)]  # what decides on marks


@dataclass(frozen=True)
class Row:
    """One student's marks in one lesson, in points."""

    student: object
    auto: float | None  # given by tests; None without a marked hand-in
    manual: float | None  # given by a person
    max: float  # what the lesson is worth
    waiting: int  # answers that a person has to mark, or to look at again
    reasons: list[str]  # reasons for a review
    handed_in: bool = False
    days_late: int = 0  # rounded up
    penalty: float = 0.0  # for being late

    @property
    def total(self) -> float | None:
        return None if self.auto is None else self.auto + self.manual - self.penalty


def autograde(course: Course, lesson: str, student: str = "", again: bool = False) -> tuple[list[str], list[str]]:
    """Mark the hand-ins of a lesson that are new, or whose tests have changed, several at a time on all cores.

    nbgrader's converter marks each in a separate process, with a line that shows the progress. Problems go to the
    hand-in's notes. With `student`, only that hand-in is marked, changed or not; with `again`, all are. A hand-in whose
    hidden tests were cut short is marked once more, alone. Return whose hand-ins were marked, and whose are as they
    were when they were marked last.
    """
    sandbox.find()
    known = {person.id for person in students(course)}
    everyone = [name for name in course.handed_in(lesson) if name in known]
    if not everyone:
        raise MarkingError(f"no hand-ins of {lesson} in {course.folder}: `make collect` first")
    if student:
        everyone = [the_one("student with a hand-in", student, everyone)]
    chosen = [
        name
        for name in everyone
        if student or again or course.notes(lesson, name).version != _version(course, lesson, name)
    ]
    app = course.nbgrader()

    def mark(name):
        before = replace(course.notes(lesson, name), marked=("marking it was not completed",), failed=True, version="")
        course.note(lesson, name, before)
        _mark(course, app, lesson, name)

    def done(name, failure, log):
        found = {"marked": [f"it could not be marked: {failure}; see {log}"]}
        if not failure:
            notebook = nbformat.read(course.notebook("autograded", lesson, name), 4)
            notes = notebook.metadata["examination"]["notes"]
            found = {"marked": notes, "failed": False, "version": _version(course, lesson, name)}
        course.note(lesson, name, replace(course.notes(lesson, name), **found))
        row = rows(course, lesson, only=name)[0]
        mark_of = "not marked" if row.auto is None else f"{row.total:g} of {row.max:g}"
        return f"{mark_of:<12} {'look' if row.reasons else '':<5}"

    process_pool.each(course, f"marking {lesson}", chosen, mark, done, STUDENT_S)
    cut_short = [name for name in chosen if any(IN_HIDDEN in note for note in course.notes(lesson, name).marked)]
    if cut_short:
        process_pool.each(course, f"again {lesson}", cut_short, mark, done, STUDENT_S, at_once=1)
    return chosen, sorted({*everyone} - {*chosen})


def _version(course, lesson, student):
    """A checksum of all that a hand-in's marks depend on."""
    found = hashlib.sha256()
    submitted = course.notebook("submitted", lesson, student)
    inputs = (course.notebook("source", lesson), course.settings, submitted, submitted.with_name(STAMP))
    for path in (*sorted(CODE), *inputs):
        found.update(path.read_bytes() if path.exists() else b"")
    with course.gradebook() as gradebook:
        when = due(gradebook, lesson)
    found.update(str(when.get(student, when.get("everybody"))).encode())
    return found.hexdigest()


def rows(course: Course, lesson: str, only: str | None = None) -> list[Row]:
    """The current marks of everybody in the gradebook, or of one student."""
    record_penalties(course, lesson)
    people = [person for person in students(course) if only in (None, person.id)]
    with course.gradebook() as gradebook:
        total = gradebook.find_assignment(lesson).max_score
        handed_in = course.handed_in(lesson)
        return [_row(course, gradebook, lesson, person, total, person.id in handed_in) for person in people]


def record_penalties(course: Course, lesson: str) -> None:
    """Calculate the penalties of late hand-ins again: a person may have given points since a hand-in was marked."""
    with course.gradebook() as gradebook:
        late = [each for each in gradebook.assignment_submissions(lesson) if each.total_seconds_late > 0]
        if not late:
            return
        penalties = AssignLatePenalties(parent=course.nbgrader())
        penalties.init_plugin()
        for submission in late:
            for notebook in submission.notebooks:
                asked = submission.student_id, notebook.score, submission.total_seconds_late
                penalty = penalties.plugin_inst.late_submission_penalty(*asked)
                if penalty is not None:
                    notebook.late_submission_penalty = min(max(penalty, 0), notebook.score)
        gradebook.db.commit()


def _row(course, gradebook, lesson, person, total, handed_in):
    notes = course.notes(lesson, person.id)
    reasons = [*notes.reasons, *_asked(course, lesson, person.id)]
    unmarked_row = Row(person, None, None, total, 0, reasons, handed_in)
    grades = grades_of(gradebook, lesson, person.id)
    marked = [grade for grade in grades if grade.auto_score is not None or grade.manual_score is not None]
    if notes.failed or not (marked or course.notebook("autograded", lesson, person.id).exists()):
        return unmarked_row  # an extension also makes a submission
    submission = gradebook.find_submission(lesson, person.id)
    by_hand = [grade for grade in grades if grade.manual_score is not None]
    changed = [
        f"{grade.name} has changed since you marked it: is the mark, {grade.manual_score:g}, still right? "
        "(It counts, and saving it in the formgrader ends this note.)"
        for grade in by_hand
        if grade.needs_manual_grade
    ]
    return Row(
        person,
        auto=sum(grade.score for grade in grades if grade.manual_score is None),
        manual=sum(grade.score for grade in by_hand),
        max=total,
        waiting=sum(grade.needs_manual_grade for grade in grades),
        reasons=[*reasons, *changed],
        handed_in=handed_in,
        days_late=days_late(submission.duedate, submission.timestamp),
        penalty=sum(notebook.late_submission_penalty or 0 for notebook in submission.notebooks),
    )


def _asked(course, lesson, student):
    """Return a student's request for another look, as a reason to look."""
    path = course.request(lesson, student)
    if not path.exists():
        return []
    text = " ".join(path.read_text(errors="replace").split())
    return [f"asks for another look (delete {path} when it is answered): {plain(text[:300])}"]


def _mark(course, app, lesson, student):
    """Mark a hand-in with nbgrader, which keeps a person's marks and wants all of them to be looked at again.

    Only those for answers that have changed since need that.
    """
    autograded = course.notebook("autograded", lesson, student)
    before = _answers(autograded)
    with course.gradebook() as gradebook:
        grades = grades_of(gradebook, lesson, student)
        settled = {g.name for g in grades if g.manual_score is not None and not g.needs_manual_grade}
    app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
    converter = Autograde(coursedir=app.coursedir, parent=app)
    # Overwrite what an earlier marking left, even an interrupted one.
    converter.force = True
    converter.create_student = False
    converter.start()
    if not settled:
        return
    now = _answers(autograded)
    with course.gradebook() as gradebook:
        for grade in grades_of(gradebook, lesson, student):
            answer = grade.name.removesuffix("_test")
            if grade.name in settled and before.get(answer) == now.get(answer):
                grade.needs_manual_grade = False
        gradebook.db.commit()


def _answers(path):
    return answers_of(nbformat.read(path, as_version=4)) if path.exists() else {}


def grades_of(gradebook, lesson, student):
    """The gradebook's entries for a student's hand-in; none if there is none."""
    try:
        return [grade for notebook in gradebook.find_submission(lesson, student).notebooks for grade in notebook.grades]
    except MissingEntry:
        return []
