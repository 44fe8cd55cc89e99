"""An attendee's own copy of the course, on a server that a class shares."""

import os
import subprocess
from pathlib import Path

from ddl.errors import CourseError
from ddl.records import files

COURSE = "DDL_COURSE"  # the course that a class works through, as a bundle of git's
FOLDER = "course"  # in the attendee's home


def check_out_course() -> Path | None:
    """Go into this attendee's copy of the course, made where it is missing, and use the package in it.

    Return the folder; None where no class's server started this.
    """
    bundle = os.environ.get(COURSE)
    if not bundle:
        return None
    home = Path.home()
    folder = home / FOLDER
    with files.locked(home / f".{FOLDER}.lock"):
        if not folder.exists():
            new = home / f".{FOLDER}.{os.getpid()}"
            done = subprocess.run(["git", "clone", "--quiet", bundle, new], capture_output=True, text=True)
            if done.returncode:
                raise CourseError(f"{folder} cannot be made from {bundle}: {done.stderr.strip()}")
            new.rename(folder)
    os.chdir(folder)
    os.environ["PYTHONPATH"] = str(folder / "source_code")
    return folder
