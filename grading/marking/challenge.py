"""The challenge: take in a class's submissions, run each again, and write the marks into the gradebook.

Of a hand-in, its one Python file counts and nothing else: no result, journal or board in it is read. A file is built
in the sandbox, and trained with fresh seeds, several runs at a time; each run is noted in a journal, so that an
interrupted command goes on. Marks go by samples, not by time, as runs that share a machine have no time of their own.

The score is an assignment of its own in the gradebook, beside the lesson with its written answers: `make autograde`
writes all marks of a lesson's notebook anew, and would take those away that are not in it.
"""

import io
import os
import shutil
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from course.challenge import attempt, scoring
from course.challenge.journal import SUBMISSION, Entry, Journal
from course.challenge.judge import labels_of
from course.challenge.rules import LEAST_RUNS, POINTS, Refused, check_workers, points
from course.challenge.standings import recorded, standing, table
from course.challenge.verdict import Score
from ddl.launcher.run import Run
from ddl.launcher.site import Site
from ddl.records.machine import usable_cores
from ddl.words import plural
from line import Line
from marking import autograde, sandbox
from marking.autograde import Row
from marking.collect import Stray, by_student, inside, kept_in, name_of
from marking.course import CHALLENGE, Course, MarkingError, plain, write
from marking.lanes import time_left
from marking.students import students

CELL = "score"
POLL_S = 0.5
REASON_CHARACTERS = 300


def collect(course: Course, where: Path) -> tuple[list[str], list[Stray]]:
    """Take in all submissions in a folder or zip archive; return the ids of their students, and the strays.

    Originals are kept under collected/. A submission replaces that student's earlier one; those of students not in
    `where` stay.
    """
    found, strays = by_student(course, where)
    for student, pieces in sorted(found.items()):
        course.check_room()
        with kept_in(course.folder / "collected" / student / CHALLENGE, pieces) as (kept, refused):
            _take_in(course, student, pieces, kept, refused)
    return sorted(found), strays


def _take_in(course, student, pieces, kept, refused):
    """Put a student's one Python file where it is scored from; note why there is none."""
    files, unread = inside(kept, ".py")
    notes = [f"{plain(name)} {reason}" for name, reason in (refused | unread).items()]
    contents = set(files.values())
    folder = _folder(course, student) / "submission"
    before = course.notes(CHALLENGE, student)
    marked = before.marked
    if len(contents) == 1:
        name = plain(Path(next(iter(files))).name)
        content = contents.pop()
        if _submission(course, student) != (name, content):
            again = folder.exists()
            shutil.rmtree(folder, ignore_errors=True)
            write(folder / name, content)
            marked = ("handed in anew, and not scored since",) if again else ()
    else:
        listed = ", ".join(plain(name) for name in [*files, *(piece.name for piece in pieces)][:5])
        notes.append(
            f"{len(files)} Python files where one is a submission ({listed})"
            if files
            else f"no Python file in what was handed in ({listed})"
        )
    came_as = name_of(pieces) or before.came_as or student
    course.note(
        CHALLENGE, student, replace(before, came_as=came_as, collected=tuple(dict.fromkeys(notes)), marked=marked)
    )


def _folder(course, student):
    return course.folder / "challenge" / "students" / student


def _submission(course, student):
    """The name and bytes of what a student's score is of; None where there is nothing."""
    found = sorted((_folder(course, student) / "submission").glob("[!.]*"))
    return (found[0].name, found[0].read_bytes()) if found else None


# ---------------------------------------------------------------- running


# A view of a run that shows nothing: the command has a line of its own.
UNSEEN = SimpleNamespace(update=lambda progress: None, close=lambda progress: None)


@dataclass
class Task:
    """A run that is to be run, or that is under way."""

    student: str
    journal: Journal
    entry: Entry
    run: Run | None = None


def score(
    course: Course,
    *,
    runs: int = LEAST_RUNS,
    workers: int = 2,
    lanes: int | None = None,
    site: Site | str | None = None,
    trial: dict[str, int] | None = None,
    data_set: str = "cifar10",
    say: Callable[[str], Any] = print,
) -> dict[str, Score]:
    """Score every submission that was taken in; return the scores by student.

    What has been run before is not run again. Interrupted, the runs under way are stopped, and run again with their
    seeds the next time. `runs` are those of each submission, and `lanes` those at a time: by default as many as the
    cores hold. With smaller sizes, a `trial`, nobody gets points. `say` gets a line for each run that has ended.
    """
    check_workers(workers)
    if runs < LEAST_RUNS and not trial:
        raise MarkingError(f"--runs {runs}: a score takes at least {LEAST_RUNS} runs")
    sandbox.find()
    pictures = attempt.pictures(data_set)
    if pictures != "cifar10" and not trial:
        raise MarkingError("a class is scored on CIFAR-10: `ddl data fetch cifar10` first")
    attempt.pictures_file(pictures, trial or {})  # a DataError before anything is drawn
    os.environ["DDL_RUNS_DIR"] = str(course.folder / "challenge" / "runs")
    journals = _journals(course, runs, workers, trial or {}, pictures)
    if not journals:
        raise MarkingError(f"no submissions in {course.folder}: name them with FROM=FOLDER_OR_ZIP")
    cores = usable_cores()
    lanes = lanes or max(1, cores // workers)
    options = dict(site=site if isinstance(site, Site) else Site.here(site), oversubscribe=lanes * workers > cores)
    options["threads"] = max(1, cores // (lanes * workers)) if site is None else None
    if not trial:
        _time_baseline(workers, data_set, options["site"], say)
    built = _build(course, journals, say)
    for student in journals:
        _mark_if_done(course, student, journals[student])
    queue = [Task(who, each, entry) for who, each in journals.items() if who in built for entry in each.pending]
    _run_all(course, queue, built, lanes, options, say)
    return {student: journal.score() for student, journal in journals.items()}


def _time_baseline(workers, data_set, site, say):
    """Run the baseline once, unless its time on this machine is known."""
    if attempt.baseline_seconds(workers, data_set) is None:
        say("the baseline runs first: a run may take ten times as long")
        attempt.run(attempt.BASELINE_FILE, workers=workers, data_set=data_set, site=site, oversubscribe=True)


def _journals(course, runs, workers, trial, pictures):
    """Everybody's journal, with seeds drawn for what has none."""
    found = {}
    for person in students(course):
        submission = _submission(course, person.id)
        if submission is None:
            continue
        name, content = submission
        root = _folder(course, person.id)
        journal = Journal.of(content, name, pictures, workers, trial, root)
        if not journal.looks:
            journal.draw(runs, beside=False)
        found[person.id] = journal
    return found


def _build(course, journals, say):
    """Build what is still to be run in the sandbox; a refused file has crashed in all its runs."""
    waiting = [student for student, journal in journals.items() if journal.pending]

    def build(student):
        _, content = _submission(course, student)
        try:
            return scoring.builds(journals[student], SUBMISSION, content, start=sandbox.start_builder)
        except Refused as error:
            return error

    built = {}
    # A builder takes one core; a sandbox ends with the thread that started it.
    with ThreadPoolExecutor(usable_cores()) as pool:
        for number, (student, result) in enumerate(zip(waiting, pool.map(build, waiting), strict=True), start=1):
            if isinstance(result, Refused):
                for entry in journals[student].pending:
                    journals[student].crashed(entry, str(result)[:REASON_CHARACTERS])
                say(f"built {number:>3} of {len(waiting)}  {student:<14} refused: {plain(str(result))}")
            else:
                built[student] = result
                say(f"built {number:>3} of {len(waiting)}  {student}")
    return built


def _run_all(course, queue, built, lanes, options, say):
    """Run tasks, so many at a time, and note each as it ends."""
    total, done, begun = len(queue), 0, time.monotonic()
    if not total:
        return
    first = queue[0].journal
    labels = labels_of(first.data, first.trial.get("private_samples"))
    waiting, active = list(queue), []
    line = Line("scoring", plural(total, "run"))
    try:
        while waiting or active:
            while waiting and len(active) < lanes:
                course.check_room()
                task = waiting.pop(0)
                if task.entry.over:  # with another that did not end in time
                    done += 1
                    _mark_if_done(course, task.student, task.journal)
                    continue
                task.run = scoring.start(task.journal, task.entry, built[task.student], name=task.student, **options)
                active.append(task)
            for task in [task for task in active if task.run.progress().over]:
                active.remove(task)
                task.run.wait(view=UNSEEN)
                if not scoring.settle(task.journal, task.entry, task.run, labels, task.journal.file):
                    waiting.insert(0, task)  # stopped from outside: once more, with its own seeds
                    continue
                done += 1
                left_s = (time.monotonic() - begun) / done * (total - done)
                reached = task.entry.crash or f"{task.entry.accuracy:.2%}"
                begin = f"run {done:>3} of {total}  {task.student:<14}"
                say(f"{begin} {plain(reached)[:80]:<10} {time_left(left_s)}".rstrip())
                _mark_if_done(course, task.student, task.journal)
            line.show(f"{done} done, at work: {', '.join(task.student for task in active)}")
            time.sleep(POLL_S)
    except BaseException:
        for task in active:
            task.run.stop()
            task.journal.interrupted(task.entry)
        raise
    line.end(f"{done} done")


# ---------------------------------------------------------------- marks


def _mark_if_done(course, student, journal):
    """Write a student's points into the gradebook, and why a person should look, once all runs are done."""
    found = journal.score()
    if found.left:
        return
    scoring.tidy(journal)
    worth = points(found.counts, found.samples or 0)
    with course.gradebook() as gradebook:
        _assignment(gradebook)
        with gradebook.db.no_autoflush:  # nbgrader's own way to add one would warn of it
            gradebook.update_or_create_submission(CHALLENGE, student)
        grade = gradebook.find_grade(CELL, CHALLENGE, CHALLENGE, student)
        grade.auto_score, grade.needs_manual_grade = worth, False
        gradebook.db.commit()
    looks = [*dict.fromkeys(f"counts as chance: {plain(why)}" for why in found.crashes), *filter(None, [found.look])]
    course.note(CHALLENGE, student, replace(course.notes(CHALLENGE, student), marked=tuple(looks), failed=False))


def rows(course: Course) -> list[Row]:
    """The marks of everybody who has handed in a submission, and of whom something is noted."""
    with course.gradebook() as gradebook:
        _assignment(gradebook)
    return [row for row in autograde.rows(course, CHALLENGE) if row.auto is not None or row.reasons]


def _assignment(gradebook):
    """Make the challenge's assignment, unless it is there."""
    gradebook.update_or_create_assignment(CHALLENGE)
    gradebook.update_or_create_notebook(CHALLENGE, CHALLENGE)
    gradebook.update_or_create_grade_cell(CELL, CHALLENGE, CHALLENGE, max_score=POINTS, cell_type="code")


def board(course: Course, scores: dict[str, Score]):
    """Return the class's board, and write it as a picture and as feedback in a zip archive; with their paths."""
    from course.challenge.plot_challenge import plot_challenge

    folder = course.folder / "challenge"
    named = {student: replace(score, name=student) for student, score in scores.items()}
    found = table([*(standing(score) for score in named.values()), *recorded()])
    figure = None
    if any(score.samples for score in scores.values()):
        figure = folder / "board.svg"
        plot_challenge(found).savefig(figure)
    pages = course.folder / f"feedback-{CHALLENGE}.zip"
    write(pages, _feedback(course, scores))
    return found, figure, pages


def _feedback(course, scores: dict[str, Score]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pages:
        for student, score in scores.items():
            if score.left:
                continue
            text = f"{score!r}\n  {points(score.counts, score.samples or 0)} of {POINTS} points\n"
            name = course.notes(CHALLENGE, student).came_as or student
            pages.writestr(f"{name}/{CHALLENGE}.txt", text)
    return archive.getvalue()
