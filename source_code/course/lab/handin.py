"""Hand-ins of lessons to nbgrader's exchange or a folder; `make collect` reads both.

A class's server sets ``DDL_EXCHANGE`` to the exchange, for attendees and instructors.
"""

import getpass
import logging
import os
import shutil
import tempfile
from datetime import datetime
from pathlib import Path

from course.lab.notebooks import find_notebook, read_notebook
from ddl.errors import CourseError, InputError
from ddl.records import files

EXCHANGE = "DDL_EXCHANGE"  # nbgrader's exchange: a folder writable by the class
COURSE = "ddl"  # the course's name in an exchange


def hand_in(notebook: str | Path, into: str | Path | None = None) -> str:
    """Hand in a saved lesson, given by name or path; return a sentence that confirms it.

    The notebook goes to a folder with your name in the folder `into`, or to the class's exchange; handing in again
    replaces the previous hand-in. Raises CourseError if it is not a notebook or cannot be written there.
    """
    path = find_notebook(notebook)
    read_notebook(path)
    saved = datetime.fromtimestamp(path.stat().st_mtime)
    exchange = os.environ.get(EXCHANGE)
    if into:
        where = Path(into).expanduser() / student() / path.name
        try:
            where.parent.mkdir(parents=True, exist_ok=True)
            files.write(where, path.read_bytes())
        except OSError as error:
            raise InputError(f"{where}: {error.strerror}; name another folder") from None
    elif exchange:
        where = Path(exchange)
        _submit(path, where)
    else:
        raise InputError(
            f"no exchange for handing in {path.stem} ({EXCHANGE} is not set): name a folder "
            f"(`ddl submit {path.stem} --into FOLDER`), or upload {path} where your instructor asks for it"
        )
    return f"{path.stem} is handed in for {student()}, as it was saved at {saved:%H:%M:%S on %Y-%m-%d} ({where})"


def student() -> str:
    """Return the name for hand-ins: JupyterHub's user, or else the system's."""
    return os.environ.get("JUPYTERHUB_USER") or getpass.getuser()


def _submit(path, exchange):
    from nbgrader.auth import Authenticator
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.exchange import ExchangeError
    from nbgrader.exchange.default import ExchangeSubmit
    from traitlets.config import Config

    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / path.stem
        copied.mkdir()
        shutil.copy(path, copied)
        config = Config()
        config.CourseDirectory.course_id = COURSE
        config.CourseDirectory.assignment_id = path.stem
        config.CourseDirectory.student_id = student()
        config.Exchange.root = str(exchange)
        config.Exchange.assignment_dir = folder
        quiet = logging.getLogger("ddl.nbgrader")  # the error repeats its output
        quiet.setLevel(logging.CRITICAL + 1)
        try:
            ExchangeSubmit(
                coursedir=CourseDirectory(config=config), authenticator=Authenticator(config=config),
                config=config, log=quiet,
            ).start()  # fmt: skip
        except ExchangeError as error:
            raise CourseError(
                f"the exchange {exchange} does not take {path.stem}: {error}. "
                "Has your instructor released it there (`make release`)?"
            ) from None
