"""Where the course, its data and its runs live."""

import os
from pathlib import Path

from ddl.errors import NotFound


def course_root() -> Path:
    """The folder that holds ``Start_Here.ipynb``, or the working directory elsewhere."""
    root = source_dir().parent
    return root if (root / "Start_Here.ipynb").exists() else working_dir()


def working_dir() -> Path:
    """The working folder; NotFound where it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise NotFound("the working folder was deleted: change to another one") from None


def source_dir() -> Path:
    """The folder of the training scripts and of this package, ``source_code``."""
    return Path(__file__).resolve().parents[2]


def reference_dir() -> Path:
    """The folder of recorded results, ``results/reference``, which comes with the course."""
    return source_dir().parent / "results" / "reference"


def cache_dir() -> Path:
    """This user's cache folder for the course (``$XDG_CACHE_HOME/ddl``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ddl"


def data_dir() -> Path:
    """Where data sets live: ``DDL_DATA_DIR``, else the cache folder's ``data``."""
    chosen = os.environ.get("DDL_DATA_DIR")
    return Path(chosen).expanduser() if chosen else cache_dir() / "data"


def runs_dir() -> Path:
    """Where run folders go: ``DDL_RUNS_DIR``, else ``runs`` in the course folder."""
    chosen = os.environ.get("DDL_RUNS_DIR")
    return Path(chosen).expanduser().resolve() if chosen else course_root() / "runs"
