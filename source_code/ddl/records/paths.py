"""Folders of the course, its data sets and its runs."""

import os
from functools import cache
from pathlib import Path

from ddl.errors import NotFound


def course_root() -> Path:
    """Return the folder that holds ``Start_Here.ipynb``; without the course, the working folder."""
    root = source_dir().parent
    return root if (root / "Start_Here.ipynb").exists() else working_dir()


def working_dir() -> Path:
    """Return the working folder; raise NotFound if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise NotFound("the working folder was deleted: change to another one") from None


def source_dir() -> Path:
    """Return ``source_code``, the folder of the training scripts and of this package."""
    return Path(__file__).resolve().parents[2]


def reference_dir() -> Path:
    """Return ``results/reference``, the folder of recorded results."""
    return source_dir().parent / "results" / "reference"


def cache_dir() -> Path:
    """Return this user's cache folder for the course (``$XDG_CACHE_HOME/ddl``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ddl"


def data_dir() -> Path:
    """Return the folder of data sets: ``DDL_DATA_DIR``, or ``data`` in the cache folder."""
    chosen = os.environ.get("DDL_DATA_DIR")
    return Path(chosen).expanduser() if chosen else cache_dir() / "data"


def runs_dir() -> Path:
    """Return the folder of runs: ``DDL_RUNS_DIR``, or ``runs`` in the course folder.

    A relative path starts in the working folder of its first use in this process.
    """
    chosen = os.environ.get("DDL_RUNS_DIR")
    return _resolved(chosen) if chosen else course_root() / "runs"


@cache
def _resolved(path: str) -> Path:
    return Path(path).expanduser().resolve()
