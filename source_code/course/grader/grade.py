"""Grading of a notebook: runs its cells and judges its test cells, in order.

This process only mediates: it starts a worker for the submission's code and a judge for the tests, and passes requests
and answers between them. It runs the code of neither.
"""

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from course.grader.cells import code_cells, source_of, test_cells
from course.grader.launches import Launches, launches_here
from course.grader.limits import Limits
from course.grader.worker_process import Channel, Ended, Late
from course.grader.worker_process import start_worker as start_plain_worker
from ddl.errors import CourseError

START_S = 60.0  # for a worker or judge on a busy machine
HIDDEN = re.compile(r"^[^\n]*### BEGIN HIDDEN TESTS.*?(### END HIDDEN TESTS[^\n]*\n?|\Z)", re.DOTALL | re.MULTILINE)
NOT_GRADED = "not graded"
HIDDEN_MESSAGE = "A hidden test did not pass."
IN_HIDDEN = "in the run for hidden tests"  # suffix of notes about hidden tests
NOTHING = {"passed": False, "message": "", "printed": ""}


@dataclass(frozen=True)
class Verdict:
    """The verdict on a test cell."""

    grade_id: str  # from the cell's nbgrader metadata
    points: float  # maximal points
    passed: bool  # all or nothing
    message: str = ""  # reason for failure; safe to show, because it does not reveal hidden tests
    printed: str = ""  # output of the visible part of the test cell


@dataclass(frozen=True)
class CellError:
    """An exception's type, message and traceback as plain text.

    `type` is ``TimeLimit`` if a cell timed out, ``ProcessEnded`` if it ended its process.
    """

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class CellResult:
    """The outcome of running one of the notebook's other code cells."""

    index: int  # among all cells of the notebook, from 0
    printed: str = ""  # the beginning of its output, including warnings and displayed values
    error: CellError | None = None


@dataclass(frozen=True)
class Grading:
    """The result of grading a notebook."""

    verdicts: tuple[Verdict, ...]  # of the test cells, in the notebook's order
    cells: tuple[CellResult, ...]  # of the other code cells that were run
    # Notes for the instructor, such as a cell that ended its process; without values of hidden tests.
    notes: tuple[str, ...] = ()


def grade_notebook(
    notebook: dict,
    *,
    hidden: bool,
    start_worker: Callable = start_plain_worker,
    launches: Launches | None = None,
    limits: Limits = Limits(),
    begin: Callable[[str], object] = lambda name: None,
) -> Grading:
    """Run a notebook's cells in a worker and its test cells in another process.

    The test cells of `notebook`, in format 4, are the course's and trusted; all other code cells are the submission's.
    With `hidden`, tests between ``### BEGIN HIDDEN TESTS`` and ``### END HIDDEN TESTS`` are also run. By default the
    notebook's code, and the ranks that `launches` starts for a test, run without a sandbox. `begin` is called with each
    test cell's id before it is judged.

    Raises
    ------
    StartError
        If no worker or judge can be started, which says nothing about the notebook.
    """
    tests, codes = test_cells(notebook), code_cells(notebook)
    clock = _Clock(limits)
    sources = {index: source_of(notebook["cells"][index]) for index in tests}
    visible = {index: visible_part(source) for index, source in sources.items()}

    with contextlib.closing(Judge(limits)) as judge:

        def walk(codes, sources):
            run = _Run(start_worker, launches or launches_here(), limits, clock, judge)
            with contextlib.closing(run):
                run.walk(codes, sources, lambda index: begin(tests[index][0]))
            return run

        first = walk(codes, visible)
        outcomes, notes = first.outcomes, first.notes
        # Hidden tests get a separate run whose output is discarded, because a submission's functions see their inputs
        # and could print them in a later cell. It skips cells that broke their worker in the first run, and tests that
        # failed anyway.
        unseen = {
            index: source
            for index, source in sources.items()
            if hidden and outcomes[index]["passed"] and visible[index] != source
        }
        if unseen:
            calm = {i: source for i, source in codes.items() if i not in first.broken and i < max(unseen)}
            second = walk(calm, unseen)
            for index, outcome in second.outcomes.items():
                message = _safe(outcome, index in second.cut_short)
                outcomes[index] = outcome | {"printed": outcomes[index]["printed"], "message": message}
            notes += [f"{note} ({IN_HIDDEN})" for note in second.notes]
    verdicts = tuple(Verdict(name, points, **outcomes[index]) for index, (name, points) in tests.items())
    return Grading(verdicts, tuple(first.cells), tuple(dict.fromkeys(notes)))


def visible_part(source):
    """Return a test cell's source without its hidden tests."""
    return HIDDEN.sub("", source)


def _safe(outcome, cut_short):
    """A hidden test's message, replaced if it could reveal a value or a line of it."""
    if outcome["passed"] or outcome["message"].startswith(NOT_GRADED):
        return outcome["message"]
    return HIDDEN_MESSAGE + " Time limit exceeded, or process ended." * cut_short


class StartError(CourseError, OSError):
    """Process for a notebook's code failed to start."""


class _OutOfTime(Exception):
    """Notebook out of time."""


class _Clock:
    def __init__(self, limits):
        self._total_s = limits.total_s
        self._due = time.monotonic() + limits.total_s

    def at_most(self, seconds):
        """Return `seconds`, or the notebook's remaining time if less."""
        left = self._due - time.monotonic()
        if left <= 0:
            raise _OutOfTime(f"{NOT_GRADED}: the notebook had used up its {self._total_s:g} s")
        return min(seconds, left)


class _Run:
    """One run through a notebook. If its worker breaks, a new one repeats the good cells."""

    def __init__(self, start_worker, launches, limits, clock, judge):
        self._start, self._launches, self._limits = start_worker, launches, limits
        self._clock, self._judge = clock, judge
        self._worker = None
        self._good = []  # cells for a new worker to repeat
        self.outcomes, self.cells, self.notes, self.broken = {}, [], [], set()
        self.cut_short = set()  # tests that timed out or whose process ended

    def walk(self, codes, tests, begin):
        """Run code cells and judge test cells, both {index: source}, in the notebook's order."""
        try:
            for index, source in sorted((codes | tests).items()):
                if index in tests:
                    begin(index)
                    seconds = self._clock.at_most(self._limits.test_s)
                    known = len(self.notes)
                    self.outcomes[index] = self._judge.judge(source, self._answer, seconds)
                    if self._judge.stopped:
                        self.notes.append(f"{self.outcomes[index]['message']} (cell {index + 1})")
                    if len(self.notes) > known:
                        self.cut_short.add(index)
                else:
                    self.cells.append(self._cell(index, source))
        except _OutOfTime as error:
            self.notes.append(str(error))
            self.outcomes = dict.fromkeys(tests, NOTHING | {"message": str(error)}) | self.outcomes

    def close(self):
        if self._worker is not None:
            self._worker.kill()

    def _cell(self, index, source):
        try:
            self._ready()
            reply = self._run(source)
        except (Ended, Late) as trouble:
            kind = "TimeLimit" if isinstance(trouble, Late) else "ProcessEnded"
            self.broken.add(index)
            self.notes.append(f"cell {index + 1}: {trouble}")
            return CellResult(index, "", CellError(kind, str(trouble)))
        self._good.append(source)
        error = reply.get("error")
        if isinstance(error, dict):
            error = CellError(*(_text(error.get(part)) for part in ("type", "message", "traceback")))
        return CellResult(index, _text(reply.get("printed")), error if isinstance(error, CellError) else None)

    def _answer(self, request):
        """Pass on a test's request; return the answer for `course.grader.judge.judge`."""
        self._ready()
        name = request.get("name", "an answer")
        try:
            if request["do"] == "launch":
                return self._launch(request)
            return self._ask(request, self._limits.call_s, self._limits.reply_bytes)
        except Late:
            self.notes.append(f"{name} did not return within {self._limits.call_s:g} s")
            return {"late": self._limits.call_s}
        except Ended as error:
            self.notes.append(f"{name} ended its process: {error}")
            return {"ended": str(error)}

    def _launch(self, request):
        file = {"do": "read", "name": request["file"]}
        script = self._ask(file, self._limits.call_s, self._limits.reply_bytes).get("text")
        self._clock.at_most(self._limits.launch_s)
        reply = self._launches.answer(request, script)
        if "ended" in reply:
            self.notes.append(f"{request['file']} could not be launched: {reply['ended']}")
        return reply

    def _ready(self):
        while self._worker is None or self._worker.ended:
            self._worker = self._start(self._limits)
            try:
                self._worker.ask({"do": "start", "limits": asdict(self._limits)}, START_S, 2**16)
            except (Ended, Late) as error:
                reason = ": ".join(filter(None, [str(error) or "it is too slow", self._worker.last_words]))
                raise StartError(f"the process for a notebook's code did not start: {reason}") from None
            for source in tuple(self._good):
                try:
                    self._run(source)
                except (Ended, Late):  # it worked before; the next worker skips it
                    self._good.remove(source)
                    break

    def _run(self, source):
        limit_bytes = 2**16 + 8 * self._limits.printed_bytes
        try:
            return self._ask({"do": "run", "source": source}, self._limits.cell_s, limit_bytes)
        except Late:
            raise Late(f"it did not end within {self._limits.cell_s:g} s") from None

    def _ask(self, request, seconds, limit_bytes):
        seconds = self._clock.at_most(seconds)
        try:
            return self._worker.ask(request, seconds, limit_bytes)
        except Late:
            self._clock.at_most(seconds)  # raises if the notebook's time is used up
            raise


class Judge:
    """A process that runs test cells, replaced when it gets stuck.

    A test can get stuck if a submission returns something huge where it expects something small.
    """

    def __init__(self, limits):
        self._limits = limits
        self._channel = None

    @property
    def stopped(self):
        """Whether the last test was stopped, which says nothing about the answer."""
        return self._channel is not None and self._channel.ended

    def judge(self, source: str, answer: Callable[[dict], dict], timeout_s: float) -> dict:
        """Run a test cell; return ``passed``, ``message`` and ``printed``. `answer` serves the test's requests."""

        def serve(request):
            asked = time.monotonic()
            reply = answer(request)
            if request["do"] == "launch":  # it has a separate time limit
                self._channel.due += time.monotonic() - asked
            return reply

        limits = {name: getattr(self._limits, name) for name in ("memory_bytes", "printed_bytes")}
        try:
            if self._channel is None or self._channel.ended:
                command = [sys.executable, "-I", "-m", "course.grader.judge"]
                self._channel = Channel(command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"})
            limit_bytes = 2**16 + 8 * self._limits.reply_bytes
            return self._channel.ask({"test": source, **limits}, timeout_s, limit_bytes, serve)
        except Late:
            return NOTHING | {"message": f"the test did not end within {timeout_s:g} s"}
        except Ended as error:
            return NOTHING | {"message": f"the test could not be carried out: {error}"}

    def close(self):
        if self._channel is not None:
            self._channel.kill()


def _text(value):
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
