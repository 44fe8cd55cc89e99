"""The grading commands behind `make release`, `make collect` and the others."""

import argparse
import os
import signal
import sys
import textwrap
from pathlib import Path

from sqlalchemy.exc import OperationalError

from course.challenge.rules import TRAIN_SAMPLES
from ddl.errors import CourseError
from ddl.text import plural
from marking import students
from marking.course import CHALLENGE, Course
from marking.due import due as dues
from marking.due import set_due

HERE = Path(__file__).resolve().parents[1]


def main(arguments):
    parser = _parser()
    given, others = parser.parse_known_args(arguments)
    if others and given.command != "formgrader":
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    course = Course(given.course.absolute())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # nbgrader starts one of its own programs by name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        if given.command == "formgrader":
            from marking.formgrader import open_formgrader

            open_formgrader(course, others)
        with course.alone():
            if getattr(given, "students", None):
                students.enrol(course, students.read(given.students))
            COMMANDS[given.command](course, given)
            return 0
    except (CourseError, OSError, OperationalError) as error:
        what = f"{course.folder / 'gradebook.db'}: {error.orig}" if isinstance(error, OperationalError) else error
        print(f"{given.command}: {what}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        does = {"challenge": "resumes with the same seeds", "autograde": "marks what is left"}
        again = does.get(given.command, "starts over")
        print(f"\n{given.command}: interrupted; run it again, and it {again}", file=sys.stderr)
        return 130


def release(course, given):
    from marking import release

    lesson = release.release(course, given.lesson, given.sources)
    with course.gradebook() as gradebook:
        assignment = gradebook.find_assignment(lesson)
        cells = sum(len(book.grade_cells) + len(book.task_cells) for book in assignment.notebooks)
        print(f"released {lesson}: {cells} graded cells, {assignment.max_score:g} points")
    print(f"hand out what is in {course.step('release', lesson)}")
    if exchange := release.to_exchange(course, lesson):
        print(f"it is also in the exchange {exchange}: attendees hand in with `ddl submit {lesson}`")
    if given.when:
        set_due(course, lesson, given.when)
        print(f"it is due: {given.when}")


def due(course, given):
    lesson = course.lesson(given.lesson)
    if given.when or given.student:
        set_due(course, lesson, given.when, given.student)
    with course.gradebook() as gradebook:
        known = dues(gradebook, lesson)
    for who, when in known.items():
        print(f"{lesson} is due {when} for {who}")
    if not known:
        print(f"{lesson} has no due date (WHEN='2026-12-01 18:00')")


def collect(course, given):
    from marking import collect

    lesson = course.lesson(given.lesson)
    found, strays = collect.collect(course, lesson, given.where and given.where.absolute())
    everyone, earlier = [person.id for person in students.students(course)], course.handed_in(lesson)
    rows = []
    for student in everyone:
        state = "taken in" if student in found else "from before" if student in earlier else "nothing"
        rows.append((student, state, course.notes(lesson, student).collected))
    _table(("student", "hand-in", "needs a look because"), rows)
    _say_taken(course, found, strays)


def autograde(course, given):
    from marking import autograde

    lesson = course.lesson(given.lesson)
    marked, unchanged = autograde.autograde(course, lesson, given.student, again=given.all)
    _summary({lesson: autograde.rows(course, lesson, only=marked[0] if given.student else None)})
    if unchanged and not given.student:
        print(f"{plural(len(unchanged), 'hand-in')} unchanged since they were marked (ALL=1 marks them again)")


def feedback(course, given):
    from marking import autograde, feedback

    lesson = course.lesson(given.lesson)
    pages, failed = feedback.feedback(course, lesson)
    for student, reason in failed.items():
        print(f"{student}: no feedback: {reason}")
    archive = course.folder / f"feedback-{lesson}.zip"
    print(f"{plural(pages, 'page')} under {course.folder / 'feedback'}; to hand back: {archive}")
    if waiting := [row.student.id for row in autograde.rows(course, lesson) if row.waiting]:
        print(f"answers of these are not marked yet, and their pages say so: {', '.join(waiting)}")


def grades(course, given):
    from marking import grades

    known = sorted(path.stem for path in course.folder.glob("release/*/*.ipynb"))
    with course.gradebook() as gradebook:
        known += [book.name for book in gradebook.assignments if book.name == CHALLENGE]
    paths, marks = grades.grades(course, [course.lesson(given.lesson)] if given.lesson else known)
    _summary(marks)
    for lesson, rows in marks.items():
        if all(row.auto is None for row in rows):
            continue  # the summary says so
        print(f"\n{lesson}, by question:\n\n{grades.questions(course, lesson, rows)}")
    print(f"\nwritten to {paths[0]}; as Moodle and Canvas take them in: {' and '.join(paths[1:])}")
    if waiting := sum(bool(row.waiting) for rows in marks.values() for row in rows):
        print(f"in these, {plural(waiting, 'mark')} left out, as answers wait for a person")


def challenge(course, given):
    from marking import challenge

    if given.where:
        _say_taken(course, *challenge.collect(course, given.where.absolute()))
    trial = {}
    if given.trial:
        train = min(given.trial, TRAIN_SAMPLES)
        trial = {"n": 1, "samples": given.trial, "train_samples": train, "private_samples": 500}
    scores = challenge.score(course, **trial)
    board, figure, pages = challenge.board(course, scores)
    print(f"\n{board!r}")
    for student, score in scores.items():
        if score.report:
            print(f"{student:<14} {score.name}: {score.report}")
    _summary({CHALLENGE: challenge.rows(course)})
    print(f"the board as a figure: {figure or 'none, as no run finished'}; all verdicts to hand back: {pages}")


# Each with the commands that take it.
OPTIONS = {
    "sources": (("release",), dict(type=Path, default=HERE.parent / "lessons")),
    "when": (("release", "due"), dict(default="", help="it is due, such as 2026-12-01 18:00, or none")),
    "student": (("due", "autograde"), dict(default="", help="only this one")),
    "all": (("autograde",), dict(action="store_true", help="unchanged hand-ins, too")),
    "students": (("release", "collect", "challenge"), dict(type=Path, help="CSV: id,first_name,last_name,email")),
    "from": (("collect", "challenge"), dict(dest="where", type=Path, help="a folder or zip archive")),
    "trial": (("challenge",), dict(type=int, metavar="SAMPLES", help="one run of this size, to try the command")),
}
COMMANDS = {command.__name__: command for command in (release, due, collect, autograde, feedback, grades, challenge)}


def _say_taken(course, found, strays):
    if strays:
        print(f"\n{len(strays)} files match no student and were left where they are:")
        for name, reason in strays.items():
            print(f"    {name}: {reason}")
        print(f"If their names follow a pattern, {course.settings} can say so: see grading/README.md.")
    print(f"\n{plural(len(found), 'hand-in')} taken in; originals: {course.folder / 'collected'}")


def _summary(marks):
    """Print the marks, {lesson: rows}."""
    for lesson, rows in marks.items():
        lines = []
        for row in rows:
            mark = "–" if row.auto is None else f"{row.total:g} / {row.max:g}"
            state = "" if row.auto is not None else "not marked yet" if row.handed_in else "nothing handed in"
            late = f"{plural(row.days_late, 'day')} late (rounded up), {row.penalty:g} points less"
            looks = [*row.reasons, *[late] * bool(row.days_late)] or [state]
            lines.append((row.student.id, mark, f"{row.waiting} to do" if row.waiting else "", looks))
        print(f"\n{lesson}")
        _table(("student", "mark", "by hand", "needs a look because"), lines)
        print(
            f"\n{plural(len(rows), 'student')}, {sum(row.auto is not None for row in rows)} marked, "
            f"{sum(bool(row.reasons) for row in rows)} need a look, "
            f"{sum(row.waiting for row in rows)} answers to mark by hand"
        )


def _table(header, rows):
    """Print columns, the last of which is a list of reasons, one per line."""
    rows = [(*header[:-1], [header[-1]]), *rows]
    widths = [max(len(row[n]) for row in rows) for n in range(len(header) - 1)]
    print()
    for *columns, reasons in rows:
        start = "  ".join(f"{value:<{width}}" for value, width in zip(columns, widths, strict=True))
        for line in [line for reason in reasons for line in textwrap.wrap(reason, 72)] or [""]:
            print(f"{start}  {line}".rstrip())
            start = " " * len(start)


def _parser():
    parser = argparse.ArgumentParser(prog="python -m marking", description=__doc__)
    parser.add_argument("--course", type=Path, default=HERE / "course", help="the course folder")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in COMMANDS:
        command = commands.add_parser(name)
        command.add_argument("lesson", nargs="?", default="", help="its name or its beginning")
        for option, (of, settings) in OPTIONS.items():
            if name in of:
                command.add_argument(f"--{option}", **settings)
    commands.add_parser("formgrader", help="other options are Jupyter's own")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
