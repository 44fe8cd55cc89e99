"""Examining a notebook: run its cells in one process, its tests in another, and judge.

`examine` is used by `ddl check`, on the attendee's own machine, and by the instructor's marking,
where the process that runs the notebook is started in a sandbox. Either way the verdict is decided
where none of the notebook's own code runs: see `ddl.exam.boundary` for what can cross.
"""

from importlib import import_module

_HOME = {
    "BoundaryError": "boundary",
    "CellError": "examination",
    "CellResult": "examination",
    "Examination": "examination",
    "Limits": "limits",
    "Verdict": "examination",
    "examine": "examination",
    "test_cells": "cells",
    "visible_part": "examination",
    "WorkerProcess": "channel",
    "start_worker": "channel",
    "worker_command": "channel",
}

__all__ = list(_HOME)


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"ddl.exam.{_HOME[name]}"), name)
    raise AttributeError(f"module 'ddl.exam' has no attribute {name!r}")
