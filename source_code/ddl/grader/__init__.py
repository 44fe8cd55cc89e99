"""Grade a notebook: run its cells in one process and its tests in another.

`grade_notebook` serves `ddl check`, on the attendee's machine, and the instructor's marking, which runs the notebook in
a sandbox. Either way, verdicts are reached where no code of the notebook runs; see `ddl.grader.serialize`.
"""

from ddl.lazy import lazy_names

_HOME = {
    "BoundaryError": "serialize",
    "CellError": "grade",
    "CellResult": "grade",
    "Grading": "grade",
    "Limits": "limits",
    "Verdict": "grade",
    "grade_notebook": "grade",
    "test_cells": "cells",
    "visible_part": "grade",
    "WorkerProcess": "channel",
    "start_worker": "channel",
    "worker_command": "channel",
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOME)
