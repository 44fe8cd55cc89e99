"""An attendee's progress, from their saved notebooks, last checks and runs.

This runs no answers: results come from the last `check()`, if the answer is unchanged.
"""

import os
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from html import escape
from pathlib import Path

from course.grader.cells import STUB, answers_of, labels, role_of, tested
from course.lab import notebooks
from course.lab.attendee import CLASS, checked, digest, hints_taken, sharing
from ddl.errors import InputError
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json
from ddl.records.paths import runs_dir
from ddl.text import plural

CORE = re.compile(r"\d+\.")
LESSON = re.compile(r"\d+[a-z]?\.[^.]+\.ipynb")  # not a fresh copy of one, such as 3.Multi-GPU.fresh.ipynb
SECOND = re.compile(r"\d+[a-z]\.")
MINUTES = re.compile(r"^\| time \| (\d+) minutes", re.MULTILINE)
STUBS = ("YOUR ANSWER HERE", STUB)


@dataclass(frozen=True)
class Question:
    """An answer cell and its tests."""

    name: str
    answered: bool
    points: float  # points of its tests; 0 if an instructor reads the answer
    earned: float
    tests: int
    state: str  # done, open, failed, changed (since it was checked) or unchecked


@dataclass(frozen=True)
class Lesson:
    """A lesson's questions, stated minutes, and runs launched from its notebook."""

    path: Path
    minutes: str
    questions: tuple[Question, ...]
    runs: int
    hints: int

    @property
    def tested(self):
        return [question for question in self.questions if question.tests]

    @property
    def begun(self):
        return bool(self.runs or self.hints or any(question.answered for question in self.questions))

    @property
    def next(self):
        # the first unfinished question and what to do
        question = next((each for each in self.questions if each.state != "done"), None)
        if question is None:
            return "done"
        todo = {"open": "to be answered", "failed": "does not pass yet", "changed": "changed since it was checked"}
        label = labels(each.name for each in self.questions)[question.name]
        return f"{label}: {todo.get(question.state, 'to be checked')}"


@dataclass(frozen=True)
class Progress:
    """A table with a row for each lesson; lines in a terminal."""

    lessons: tuple[Lesson, ...]
    runs: int  # in all

    def __repr__(self):
        return f"{aligned([HEADS, *map(_row, self._shown())])}\n{self._total()}"

    def _repr_html_(self):
        from ddl.display.html import Markup, html_table

        rows = []
        for lesson in self._shown():
            name, todo, *cells = _row(lesson)
            link = os.path.relpath(lesson.path).replace(os.sep, "/")
            rows.append((name, Markup(f'<a href="{escape(link, quote=True)}">{escape(todo)}</a>'), *cells))
        return html_table(HEADS, rows, f'<div class="ddl-under">{escape(self._total())}</div>')

    def _shown(self):
        """Return the lessons, without those in depth that have not been begun."""
        return [lesson for lesson in self.lessons if lesson.begun or not SECOND.match(lesson.path.name)]

    def _total(self):
        questions = [question for lesson in self.lessons for question in lesson.questions]
        cores = [lesson for lesson in self.lessons if CORE.match(lesson.path.name)]
        second = [lesson for lesson in self.lessons if lesson not in cores]
        done = ", ".join(
            f"{sum(lesson.next == 'done' for lesson in some)} of {plural(len(some), name)}{kind}"
            for some, name, kind in ((cores, "lesson", ""), (second, "notebook", " in depth"))
            if some
        )
        hidden = len(self.lessons) - len(self._shown())
        unbegun = f" {plural(hidden, 'notebook')} in depth will be shown when you begin." * bool(hidden)
        points, most = (f"{sum(getattr(each, name) for each in questions):g}" for name in ("earned", "points"))
        return (
            f"{done} done, {sum(each.answered for each in questions)} of "
            f"{plural(len(questions), 'question')} answered, {points} of {most} points by visible tests, "
            f"{plural(self.runs, 'run')} made. This is computed from your saved notebooks and your last checks: after "
            f"more work, run it again.{unbegun}{self._shared()}"
        )

    @staticmethod
    def _shared():
        if not os.environ.get(CLASS):
            return ""
        if sharing():
            return " Your instructor sees your progress; `share(False)` stops sharing."
        return " Your instructor cannot see this; `share()` shares your progress and describes what is shared."


HEADS = ("lesson", "next", "minutes", "answered", "pass their tests", "points", "written answers", "hints", "runs")


def progress(folder: str | Path | None = None) -> Progress:
    """Return your progress: each lesson's questions, points by visible tests, runs, and next step.

    It uses the notebooks in `folder`, or those that `ddl check` finds, here or in the course.
    """
    paths = Path(folder).glob("*.ipynb") if folder else notebooks.lessons().values()
    launched = _launched()
    lessons = []
    for path in sorted(paths, key=lambda path: path.name):
        if LESSON.fullmatch(path.name) and (questions := tuple(questions_of(path))):
            hints = sum(hints_taken(path.stem).values())
            lessons.append(Lesson(path, minutes_of(path), questions, launched[path.name], hints))
    if not lessons:
        raise InputError(f"there are no lessons in {folder or 'this folder and the course'}")
    return Progress(tuple(lessons), launched.total())


def aligned(rows):
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _row(lesson):
    tested, written = lesson.tested, [question for question in lesson.questions if not question.tests]

    def answered(questions):
        return f"{sum(question.answered for question in questions)} of {len(questions)}"

    return (
        "↳ " * bool(SECOND.match(lesson.path.stem)) + lesson.path.stem,
        lesson.next,
        lesson.minutes,
        answered(lesson.questions),
        f"{sum(question.state == 'done' for question in tested)} of {len(tested)}",
        f"{sum(question.earned for question in tested):g} of {sum(question.points for question in tested):g}",
        answered(written) if written else "–",
        str(lesson.hints),
        str(lesson.runs),
    )


def minutes_of(path):
    """Return the minutes stated at the top of a lesson, or "–"."""
    texts = (cell.source for cell in notebooks.read_notebook(path).cells if cell.cell_type == "markdown")
    return next((found[1] for text in texts if (found := MINUTES.search(text))), "–")


def questions_of(path):
    """Return the questions of a saved notebook, in order."""
    notebook = notebooks.read_notebook(path)
    known, tests = checked(path.stem), defaultdict(dict)
    for answer, test in tested(notebook):
        if answer:
            tests[role_of(answer).get("grade_id")].setdefault(role_of(test)["grade_id"], role_of(test)["points"])
    for name, text in answers_of(notebook).items():
        answered = bool(text.strip()) and not any(stub in text for stub in STUBS)
        verdicts = [known.get(test, (None, "")) for test in tests[name]]
        unchanged = answered and all(checked_text == digest(text) for _, checked_text in verdicts)
        passed = [passed for passed, _ in verdicts]
        earned = sum(points for points, ok in zip(tests[name].values(), passed, strict=True) if unchanged and ok)
        state = _state(answered, unchanged, passed)
        yield Question(name, answered, sum(tests[name].values()), earned, len(tests[name]), state)


def _state(answered, unchanged, passed):
    """Return an answer's state from its last results (None: not checked)."""
    if not answered:
        return "open"
    if not passed or (unchanged and all(passed)):
        return "done"
    if None in passed:
        return "unchecked"
    return "failed" if unchanged else "changed"


def _launched():
    """Count the runs launched by each notebook, by file name; runs from terminals are under ""."""
    found = Counter()
    folder = runs_dir()
    for job in folder.glob("*/job.json"):
        try:
            shown = read_json(RunFolder(job.parent).shown) or {}
        except DamagedFile:
            shown = {}
        found[os.path.basename(shown.get("notebook", ""))] += 1
    return found
