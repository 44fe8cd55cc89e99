"""The challenge of a class: collect submissions, score them in the sandbox, and write marks to the gradebook.

Only the one Python file of a hand-in counts. It is scored as `course.challenge.scoring` does, several files at a time,
and each run is noted, so that an interrupted command resumes.

The score is a separate assignment in the gradebook, because `make autograde` rewrites all marks of a lesson's notebook,
and would remove marks that are not in it.
"""

import os
import threading
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

from course.challenge import images, scoring
from course.challenge.rules import POINTS, RUNS, Refused, points
from course.challenge.standings import board as board_of
from course.challenge.verdict import Score
from marking import autograde, sandbox
from marking.autograde import Row
from marking.collect import gathered, keep
from marking.course import CHALLENGE, Course, MarkingError, plain
from marking.students import students

CELL = "score"


def collect(course: Course, where: Path) -> tuple[list[str], dict[str, str]]:
    """Take in all submissions in a folder or zip archive; return the ids of their students, and the strays.

    Originals are kept under collected/. A submission replaces that student's earlier one; those of students not in
    `where` stay.
    """
    with gathered(course, CHALLENGE, where) as (found, strays):
        for each in found:
            contents, notes, news = set(_files(each.folder).values()), [], ""
            if len(contents) != 1:
                listed = ", ".join(map(plain, [*each.files(), *each.refused][:5]))
                notes = [f"{len(contents)} Python files where one is a submission ({listed})"]
            elif _submission(course, each.student) and _submission(course, each.student)[1] not in contents:
                news = "a new file was handed in and is not scored yet"
            keep(course, CHALLENGE, each, notes, news)
        return [each.student for each in found], strays


def _files(folder):
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix.lower() == ".py")
    return {path: path.read_bytes() for path in found}


def _folder(course, student):
    return course.folder / "challenge" / "students" / student


def _submission(course, student):
    """The path and bytes of what a student's score is of; None where there is nothing."""
    files = _files(course.step("collected", CHALLENGE, student))
    return next(iter(files.items())) if len(set(files.values())) == 1 else None


# ---------------------------------------------------------------- scoring


def score(
    course: Course, *, data_set: str = "auto", n: int = RUNS, say: Callable[[str], Any] = print, **sizes: int
) -> dict[str, Score]:
    """Score every submission that was taken in, two cores for each; return the scores by student.

    Runs that are done are not repeated. `say` gets a line for each run that has ended. With another `n` or
    smaller `sizes`, nobody gets points.
    """
    sandbox.find()
    handed_in = {person.id: _submission(course, person.id) for person in students(course)}
    handed_in = {student: found for student, found in handed_in.items() if found}
    if not handed_in:
        raise MarkingError(f"no submissions in {course.folder}: name them with FROM=FOLDER_OR_ZIP")
    name, stop, scores = images.choose(data_set), threading.Event(), {}
    cores = sorted(os.sched_getaffinity(0))
    pairs = [(cores[first], cores[first + 1]) for first in range(0, len(cores) - 1, 2)] or [(cores[0], cores[0])]
    free = list(pairs)

    def work(student):
        path, mine = handed_in[student][0], free.pop()
        try:
            return scoring.score(
                path,
                n=n,
                data_set=name,
                progress=lambda line: say(f"{student:<14} {plain(line)}"),
                start=sandbox.start_trainer,
                cores=mine,
                root=_folder(course, student) / "scores",
                stop=stop,
                **sizes,
            )
        except Refused as error:  # it is never run
            return Score(path.name, (), failure=str(error), data=name)
        finally:
            free.append(mine)

    with ThreadPoolExecutor(len(pairs)) as pool:
        waiting = {pool.submit(work, student): student for student in handed_in}
        try:
            for done in as_completed(waiting):
                scores[waiting[done]] = done.result()
                _mark(course, waiting[done], done.result())
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return {student: scores[student] for student in handed_in}


def _mark(course, student, found):
    """Write a student's points into the gradebook, and note what a person should look at."""
    worth = points(found.counts, found.ratio)
    with course.gradebook() as gradebook:
        _assignment(gradebook)
        with gradebook.db.no_autoflush:  # nbgrader's own way to add one would warn of it
            gradebook.update_or_create_submission(CHALLENGE, student)
        grade = gradebook.find_grade(CELL, CHALLENGE, CHALLENGE, student)
        grade.auto_score, grade.needs_manual_grade = worth, False
        gradebook.db.commit()
    looks = [f"a run failed: {plain(found.failure)}"] if found.failure else []
    looks += found.report.flags if found.report else []
    before = len(list((_folder(course, student) / "scores").glob("*")))
    looks += [f"{before} files of this student have been scored"] if before > 1 else []
    course.note(CHALLENGE, student, replace(course.notes(CHALLENGE, student), marked=tuple(looks), failed=False))


def rows(course: Course) -> list[Row]:
    """Return the marks of everybody with a submission or a note."""
    with course.gradebook() as gradebook:
        _assignment(gradebook)
    return [row for row in autograde.rows(course, CHALLENGE) if row.auto is not None or row.reasons]


def _assignment(gradebook):
    """Make the challenge's assignment, unless it is there."""
    gradebook.update_or_create_assignment(CHALLENGE)
    gradebook.update_or_create_notebook(CHALLENGE, CHALLENGE)
    gradebook.update_or_create_grade_cell(CELL, CHALLENGE, CHALLENGE, max_score=POINTS, cell_type="code")


def board(course: Course, scores: dict[str, Score]):
    """Return the class's board, and write it as a figure and as feedback in a zip archive; with their paths."""
    from course.challenge.plot_challenge import plot_challenge

    data = next(iter(scores.values())).data
    found = board_of(data, [replace(score, name=student, trial=False) for student, score in scores.items()])
    figure = None
    if any(score.ratios for score in scores.values()):
        figure = course.folder / "challenge" / "board.svg"
        plot_challenge(found).savefig(figure)
    path = course.folder / f"feedback-{CHALLENGE}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pages:
        for student, score in scores.items():  # what a person should look at stays here
            text = f"{replace(score, report=None)!r}\n  {points(score.counts, score.ratio)} of {POINTS} points\n"
            name = course.notes(CHALLENGE, student).came_as or student
            pages.writestr(f"{name}/{CHALLENGE}.txt", text)
    return found, figure, path
