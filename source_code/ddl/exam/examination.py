"""Examine a notebook: run its cells, judge its test cells, each at its place."""

from dataclasses import dataclass

from ddl.exam.channel import start_worker as start_plain_worker
from ddl.exam.limits import Limits

__all__ = ["CellError", "CellResult", "Examination", "Verdict", "examine"]


@dataclass(frozen=True)
class Verdict:
    """How one test cell was judged.

    Parameters
    ----------
    grade_id : str
        The test cell's, from its nbgrader metadata.
    points : float
        What the test cell is worth.
    passed : bool
        All or nothing.
    message : str
        Why not; empty when passed. Safe to show: of a hidden test it only says that there is one.
    printed : str
        What the visible part of the test cell itself printed.
    """

    grade_id: str
    points: float
    passed: bool
    message: str = ""
    printed: str = ""


@dataclass(frozen=True)
class CellError:
    """What went wrong in a cell: an exception's type, message and traceback, as plain text.

    `type` is ``TimeLimit`` for a cell that did not end in time, and ``ProcessEnded`` for one that
    ended the process it ran in.
    """

    type: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class CellResult:
    """What one of the notebook's other code cells did when it was run.

    Parameters
    ----------
    index : int
        The cell's place among all cells of the notebook, from 0.
    printed : str
        The beginning of what it printed, warnings and shown values included.
    error : CellError or None
    """

    index: int
    printed: str = ""
    error: CellError | None = None


@dataclass(frozen=True)
class Examination:
    """All that came of examining a notebook.

    Parameters
    ----------
    verdicts : tuple of Verdict
        One a test cell, in the notebook's order.
    cells : tuple of CellResult
        One for every other code cell that was run.
    notes : tuple of str
        What a person should look at: a cell over its time, one that ended its process. Without
        any value of a hidden test.
    """

    verdicts: tuple[Verdict, ...]
    cells: tuple[CellResult, ...]
    notes: tuple[str, ...] = ()

    @property
    def points(self):
        """The points of the test cells that passed."""
        return sum(verdict.points for verdict in self.verdicts if verdict.passed)

    @property
    def max_points(self):
        return sum(verdict.points for verdict in self.verdicts)


def examine(notebook, *, hidden, start_worker=start_plain_worker, limits=Limits()):
    """Run a notebook's cells in a worker and judge its test cells where none of them runs.

    Parameters
    ----------
    notebook : dict
        A notebook of format 4, as nbformat reads it. Its test cells (nbgrader's `grade` without
        `solution`) have to be the course's own: they are run as they stand here. All other code
        cells are the submission's, and run in the worker unless they are tagged ``demo``.
    hidden : bool
        Whether to run what stands between ``### BEGIN HIDDEN TESTS`` and ``### END HIDDEN TESTS``.
    start_worker : callable
        From `Limits` to `WorkerProcess`. The default runs the notebook's code without a sandbox.
    limits : Limits

    Returns
    -------
    Examination

    Raises
    ------
    OSError
        When no worker or examiner can be started: nothing is known about the notebook then.
    """
    raise NotImplementedError
