"""Hand in a lesson: into nbgrader's exchange, or into a folder; `make collect` takes it from either.

A class's server names the exchange in ``DDL_EXCHANGE``, for attendees and instructors alike.
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

EXCHANGE = "DDL_EXCHANGE"  # nbgrader's exchange: a folder that all of a class can write into
COURSE = "ddl"  # the course's name in an exchange


def hand_in(notebook: str | Path, into: str | Path | None = None) -> str:
    """Hand in a lesson as it is saved, a name or a path; return a sentence that says what was handed in, and where.

    The notebook goes to a folder with your name in the folder `into`, or to the class's exchange; handing in again
    replaces what was handed in before. CourseError, if it is no notebook, or cannot be handed in there.
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
            f"there is no exchange to hand in {path.stem} to ({EXCHANGE} names none): name a folder "
            f"(`ddl submit {path.stem} --into FOLDER`), or upload {path} where your instructor asks for it"
        )
    return f"{path.stem} is handed in for {student()}, as it was saved at {saved:%H:%M:%S on %Y-%m-%d} ({where})"


def student() -> str:
    """Return the name that hand-ins go by: that of JupyterHub's user, else of this system's."""
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
        quiet = logging.getLogger("ddl.nbgrader")  # what it says stands in the error, too
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
