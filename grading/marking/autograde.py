"""Mark hand-ins one by one, and read the marks from the gradebook."""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass, replace
from functools import partial

import nbformat
from nbgrader.api import MissingEntry
from nbgrader.converters import Autograde

from line import Line
from marking import aside, sandbox
from marking.course import Course, MarkingError
from marking.preprocessors import LIMITS
from marking.students import students

__all__ = ["Row", "autograde", "rows"]

STUDENT_S = LIMITS.total_s + 120  # for grading a hand-in, and nbgrader's work around it
GRACE_S = 15  # for a process to end its sandbox
DIE_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


@dataclass(frozen=True)
class Row:
    """One student's marks in one lesson, in points."""

    student: object
    auto: float | None  # given by tests; None without a marked hand-in
    manual: float | None  # given by a person
    max: float  # what the lesson is worth
    waiting: int  # written answers without a mark
    reasons: list[str]  # why a person should look at it

    @property
    def total(self) -> float | None:
        return None if self.auto is None else self.auto + self.manual


def autograde(course: Course, lesson: str) -> list[str]:
    """Mark every hand-in of a lesson anew; return the ids with a hand-in that are not in the gradebook.

    nbgrader's converter marks each in a separate process, with a line that shows the progress. Problems go to the
    hand-in's notes. A person's marks stay if the answer is unchanged.
    """
    sandbox.find()
    known = {student.id for student in students(course)}
    everyone = [student for student in course.handed_in(lesson) if student in known]
    if not everyone:
        raise MarkingError(f"no hand-ins of {lesson} in {course.folder}: `make collect` first")
    app = course.nbgrader()
    begun = time.monotonic()
    for number, student in enumerate(everyone, start=1):
        course.check_room()
        line = Line(f"marking {number:>3} of {len(everyone)}", student)
        course.note(
            lesson,
            student,
            replace(course.notes(lesson, student), marked=("marking it was not completed",), failed=True),
        )
        aside.set_aside(course, lesson, student)
        with course.log(f"autograde-{lesson}-{student}", app) as log:
            failure = _apart(partial(_mark, course, app, lesson, student), log, line)
        if failure:
            course.check_room()
            notes = (f"it could not be marked: {failure}; see {log}",)
        else:
            notebook = nbformat.read(course.notebook("autograded", lesson, student), 4)
            notes = tuple(notebook.metadata["examination"]["notes"])
        course.note(lesson, student, replace(course.notes(lesson, student), marked=notes, failed=bool(failure)))
        row = rows(course, lesson, only=student)[0]
        left_s = (time.monotonic() - begun) / number * (len(everyone) - number)
        mark = "not marked" if row.auto is None else f"{row.total:g} of {row.max:g}"
        line.end(f"{mark:<12} {'look' if row.reasons else '':<5} {_left(left_s)}".rstrip())
    return [student for student in course.handed_in(lesson) if student not in known]


def rows(course: Course, lesson: str, only: str | None = None) -> list[Row]:
    """The current marks of everybody in the gradebook, or of one student."""
    people = [person for person in students(course) if only in (None, person.id)]
    with course.gradebook() as gradebook:
        total = gradebook.find_assignment(lesson).max_score
        return [_row(course, gradebook, lesson, person, total) for person in people]


def _row(course, gradebook, lesson, person, total):
    notes = course.notes(lesson, person.id)
    none = Row(person, None, None, total, 0, notes.reasons)
    if notes.failed:
        return none
    try:
        submission = gradebook.find_submission(lesson, person.id)
    except MissingEntry:
        return none
    grades = [grade for notebook in submission.notebooks for grade in notebook.grades]
    by_hand = [grade for grade in grades if grade.manual_score is not None]
    auto = sum(grade.score for grade in grades if grade.manual_score is None)
    waiting = sum(grade.auto_score is None and grade.manual_score is None for grade in grades)
    given = {grade.name for grade in by_hand} | {
        comment.name for notebook in submission.notebooks for comment in notebook.comments if comment.manual_comment
    }
    again = [reason for name, reason in notes.aside.items() if name not in given]
    return Row(person, auto, sum(grade.score for grade in by_hand), total, waiting, [*notes.reasons, *again])


def _mark(course, app, lesson, student):
    app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
    converter = Autograde(coursedir=app.coursedir, parent=app)
    # Overwrite what an earlier marking left, even an interrupted one.
    converter.force = True
    converter.create_student = False
    converter.start()


def _apart(work, log, line):
    """Do `work` in a separate process, showing the time; return how it failed, or an empty text.

    The process is a fork of this one, with nbgrader already imported.
    """
    fork = multiprocessing.get_context("fork")
    told, tell = fork.Pipe(duplex=False)
    process = fork.Process(target=_work, args=(work, log, tell, os.getpid()))
    due = time.monotonic() + STUDENT_S
    try:
        with _interrupts_held():
            process.start()
        tell.close()
        while process.is_alive() and time.monotonic() < due:
            process.join(0.2)
            line.show("")
        if process.is_alive():
            return f"it took more than {STUDENT_S:.0f} s"
        with contextlib.suppress(EOFError):
            return told.recv()
        return f"its process ended with status {process.exitcode}"
    finally:
        _end(process)


@contextlib.contextmanager
def _interrupts_held():
    """Delay interrupts: Python loses one that comes during a fork."""
    came = []
    before = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


def _work(work, log, tell, parent):
    # If the command is killed, marking ends too.
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    # The terminal's interrupt reaches both processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    try:
        work()
        tell.send("")
    except Exception as error:
        traceback.print_exc()
        tell.send(f"{type(error).__name__}: {error}".splitlines()[0])


def _end(process):
    if process.pid is None:
        return
    process.terminate()
    process.join(GRACE_S)
    process.kill()
    process.join()


def _left(seconds):
    if seconds < 1:
        return ""
    return f"{seconds:.0f} s left" if seconds < 100 else f"{seconds / 60:.0f} min left"
