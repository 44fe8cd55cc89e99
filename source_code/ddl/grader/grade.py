"""Examine a notebook: run its cells, judge its test cells, each at its place.

The process that does this mediates: it starts a worker for the submission's code and an examiner for the tests, and
passes questions and answers on. It runs the code of neither.
"""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from ddl.errors import CourseError
from ddl.grader.cells import code_cells, source_of, test_cells
from ddl.grader.channel import Channel, Ended, Late, start
from ddl.grader.channel import start_worker as start_plain_worker
from ddl.grader.limits import Limits

__all__ = ["CellError", "CellResult", "Examination", "Examiner", "Verdict", "examine", "visible_part"]

START_S = 60.0  # a worker or an examiner on a busy machine
HIDDEN = re.compile(r"^[^\n]*### BEGIN HIDDEN TESTS.*?(### END HIDDEN TESTS[^\n]*\n?|\Z)", re.DOTALL | re.MULTILINE)
NOT_EXAMINED = "not examined"
HIDDEN_MESSAGE = "A hidden test did not pass."


@dataclass(frozen=True)
class Verdict:
    """How one test cell was judged."""

    grade_id: str  # the test cell's, from its nbgrader metadata
    points: float  # what the test cell is worth
    passed: bool  # all or nothing
    message: str = ""  # why not; empty when passed. Safe to show: of a hidden test it only says that there is one.
    printed: str = ""  # what the visible part of the test cell itself printed


@dataclass(frozen=True)
class CellError:
    """What went wrong in a cell: an exception's type, message and traceback, as plain text.

    `type` is ``TimeLimit`` for a cell that did not end in time, and ``ProcessEnded`` for one that ended the process it
    ran in.
    """

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class CellResult:
    """What one of the notebook's other code cells did when it was run."""

    index: int  # the cell's place among all cells of the notebook, from 0
    printed: str = ""  # the beginning of what it printed, warnings and shown values included
    error: CellError | None = None


@dataclass(frozen=True)
class Examination:
    """All that came of examining a notebook."""

    verdicts: tuple[Verdict, ...]  # one a test cell, in the notebook's order
    cells: tuple[CellResult, ...]  # one for every other code cell that was run
    # what a person should look at: a cell over its time, one that ended its process. Without any value of a hidden
    # test.
    notes: tuple[str, ...] = ()

    @property
    def points(self):
        """The points of the test cells that passed."""
        return sum(verdict.points for verdict in self.verdicts if verdict.passed)

    @property
    def max_points(self):
        return sum(verdict.points for verdict in self.verdicts)


def examine(
    notebook: dict, *, hidden: bool, start_worker: Callable = start_plain_worker, limits: Limits = Limits()
) -> Examination:
    """Run a notebook's cells in a worker and judge its test cells where none of them runs.

    Parameters
    ----------
    notebook
        A notebook of format 4, as nbformat reads it. Its test cells (nbgrader's `grade` without `solution`) have to be
        the course's own: they are run as they stand here. All other code cells are the submission's, and run in the
        worker; of those tagged ``demo``, see `ddl.grader.cells.code_cells`.
    hidden
        Whether to run what stands between ``### BEGIN HIDDEN TESTS`` and ``### END HIDDEN TESTS``.
    start_worker
        From `Limits` to `WorkerProcess`. The default runs the notebook's code without a sandbox.

    Raises
    ------
    StartError
        When no worker or examiner can be started: nothing is known about the notebook then.
    """
    cells = notebook["cells"]
    tests = test_cells(notebook)
    codes = code_cells(notebook)
    clock = _Clock(limits)
    seen = _walk(codes, {index: visible_part(source_of(cells[index])) for index in tests}, start_worker, limits, clock)
    # Hidden tests have a second run of everything to themselves, and nothing that this run prints
    # is kept: a submission's functions see the inputs of hidden tests, and could print them in a
    # later cell. What broke its worker the first time, and what failed anyway, is left out.
    unseen = {
        index: source_of(cells[index])
        for index in tests
        if hidden
        and seen.outcomes[index]["passed"]
        and visible_part(source_of(cells[index])) != source_of(cells[index])
    }
    judged = seen.outcomes
    notes = list(seen.notes)
    if unseen:
        calm = {index: source for index, source in codes.items() if index not in seen.broken and index < max(unseen)}
        second = _walk(calm, unseen, start_worker, limits, clock)
        judged |= {
            index: outcome | {"printed": seen.outcomes[index]["printed"], "message": _safe(outcome)}
            for index, outcome in second.outcomes.items()
        }
        notes += [f"{note} (in the run for hidden tests)" for note in second.notes]
    verdicts = tuple(Verdict(name, points, **judged[index]) for index, (name, points) in tests.items())
    return Examination(verdicts, tuple(seen.cells), tuple(dict.fromkeys(notes)))


def visible_part(source):
    """Return a test cell's source without its hidden tests."""
    return HIDDEN.sub("", source)


def _safe(outcome):
    """Return of a hidden test's message only what holds no value and no line of it."""
    if outcome["passed"] or outcome["message"].startswith(NOT_EXAMINED):
        return outcome["message"]
    return HIDDEN_MESSAGE


class StartError(CourseError, OSError):
    """The process for a notebook's code does not start."""


class _OutOfTime(Exception):
    """The notebook's time as a whole is used up."""


class _Clock:
    def __init__(self, limits):
        self._total_s = limits.total_s
        self._due = time.monotonic() + limits.total_s

    def at_most(self, seconds):
        """Return how long something may take that has `seconds` by itself."""
        left = self._due - time.monotonic()
        if left <= 0:
            raise _OutOfTime(f"{NOT_EXAMINED}: the notebook had used up its {self._total_s:g} s")
        return min(seconds, left)


@dataclass
class _Walk:
    """What one run through a notebook gave."""

    outcomes: dict
    cells: list
    notes: list
    broken: set


def _walk(codes, tests, start_worker, limits, clock):
    """Run cells and judge test cells, from index to source, in the notebook's order."""
    walk = _Walk({}, [], [], set())
    session, examiner = _Session(start_worker, limits, clock), Examiner(limits)
    try:
        for index, source in sorted((codes | tests).items()):
            if index in tests:
                seconds = clock.at_most(limits.test_s)
                walk.outcomes[index] = examiner.judge(source, session.answer, seconds)
            else:
                walk.cells.append(_ran(session, index, source, walk))
    except _OutOfTime as error:
        walk.notes.append(str(error))
        late = {"passed": False, "message": str(error), "printed": ""}
        walk.outcomes = dict.fromkeys(tests, late) | walk.outcomes
    finally:
        session.close()
        examiner.close()
    walk.notes += session.notes
    return walk


def _ran(session, index, source, walk):
    try:
        printed, error = session.run(source)
    except (Ended, Late) as trouble:
        kind = "TimeLimit" if isinstance(trouble, Late) else "ProcessEnded"
        walk.broken.add(index)
        walk.notes.append(f"cell {index + 1}: {trouble}")
        return CellResult(index, "", CellError(kind, str(trouble)))
    return CellResult(index, printed, error)


class _Session:
    """A worker in which a notebook's cells have been run, or a new one brought to that point."""

    def __init__(self, start_worker, limits, clock):
        self._start, self._limits, self._clock = start_worker, limits, clock
        self._worker = None
        self._good = []  # the cells that a new worker runs again
        self.notes = []

    def run(self, source):
        """Run a cell; return what it printed, and its `CellError` or None."""
        self._ready()
        reply = self._ask(
            {"do": "run", "source": source},
            self._limits.cell_s,
            2**16 + 8 * self._limits.printed_bytes,
            f"it did not end within {self._limits.cell_s:g} s",
        )
        self._good.append(source)
        error = reply.get("error")
        if isinstance(error, dict):
            error = CellError(*(_text(error.get(part)) for part in ("type", "message", "traceback")))
        return _text(reply.get("printed")), error if isinstance(error, CellError) else None

    def answer(self, request):
        """Pass a test's question on; return what `ddl.grader.judge.judge` takes for an answer."""
        self._ready()
        name = request.get("name", "an answer")
        try:
            return self._ask(request, self._limits.call_s, self._limits.reply_bytes, "late")
        except Late:
            self.notes.append(f"{name} did not return within {self._limits.call_s:g} s")
            return {"late": self._limits.call_s}
        except Ended as error:
            self.notes.append(f"{name} ended its process: {error}")
            return {"ended": str(error)}

    def close(self):
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _ready(self):
        while self._worker is None:
            self._worker = self._start(self._limits)
            try:
                self._worker.ask({"do": "start", "limits": asdict(self._limits)}, START_S, 2**16)
            except (Ended, Late) as error:
                said = self._worker.said().strip().splitlines()[-1:]
                self.close()
                raise StartError(
                    f"the process for a notebook's code did not start: "
                    f"{': '.join([str(error) or 'it is too slow', *said])}"
                ) from None
            for source in tuple(self._good):
                try:
                    self._ask(
                        {"do": "run", "source": source},
                        self._limits.cell_s,
                        2**16 + 8 * self._limits.printed_bytes,
                        "late",
                    )
                except (Ended, Late):  # it was good once; the next worker does without it
                    self._good.remove(source)
                    break

    def _ask(self, request, seconds, limit_bytes, late):
        seconds = self._clock.at_most(seconds)
        try:
            return self._worker.ask(request, seconds, limit_bytes)
        except Late:
            self.close()
            self._clock.at_most(seconds)  # when it is the notebook's whole time that is over
            raise Late(late) from None
        except Ended:
            self.close()
            raise
        except BaseException:
            self.close()
            raise


class Examiner:
    """A process that judges test cells; a new one takes its place when it gets stuck.

    What a submission returns can be huge where a test expects it small, and so stop a test.
    """

    def __init__(self, limits):
        self._limits = limits
        self._channel = None

    def judge(self, source: str, answer: Callable, timeout_s: float):
        """Run a test cell; return ``passed``, ``message`` and ``printed``.

        Parameters
        ----------
        answer
            From the examiner's question to the answer, both dictionaries.
        """
        due = time.monotonic() + timeout_s
        try:
            if self._channel is None:
                command = [sys.executable, "-I", "-m", "ddl.grader.judge"]
                self._channel = Channel(start(command))
            self._channel.send(
                {
                    "test": source,
                    "memory_bytes": self._limits.memory_bytes,
                    "printed_bytes": self._limits.printed_bytes,
                },
                START_S,
            )
            while True:
                left = max(0.0, due - time.monotonic())
                message = self._channel.receive(left, 2**16 + 8 * self._limits.reply_bytes)
                if "done" in message:
                    return message["done"]
                reply = answer(message["ask"])
                self._channel.send(reply, max(0.0, due - time.monotonic()))
        except Late:
            self.close()
            return {"passed": False, "printed": "", "message": f"the test did not end within {timeout_s:g} s"}
        except Ended as error:
            self.close()
            return {"passed": False, "printed": "", "message": f"the test could not be carried out: {error}"}
        except BaseException:
            self.close()
            raise

    def close(self):
        if self._channel is not None:
            self._channel.kill()
            self._channel = None


def _text(value):
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""
