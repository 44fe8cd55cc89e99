"""Examining a notebook: run its cells in one process, its tests in another, and judge.

`examine` is used by `ddl check`, on the attendee's own machine, and by the instructor's marking, where the process that
runs the notebook is started in a sandbox. Either way the verdict is decided where none of the notebook's own code runs:
see `ddl.grader.serialize` for what can cross.
"""

from importlib import import_module

_HOME = {
    "BoundaryError": "serialize",
    "CellError": "grade",
    "CellResult": "grade",
    "Examination": "grade",
    "Limits": "limits",
    "Verdict": "grade",
    "examine": "grade",
    "test_cells": "cells",
    "visible_part": "grade",
    "WorkerProcess": "channel",
    "start_worker": "channel",
    "worker_command": "channel",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"ddl.grader.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ddl.grader' has no attribute {name!r}")
