"""An attendee's copy of the course on a class's server."""

import os
import subprocess
from pathlib import Path

from ddl.errors import CourseError
from ddl.records import files

COURSE = "DDL_COURSE"  # git bundle with a class's course
FOLDER = "course"  # in the attendee's home


def check_out_course() -> Path | None:
    """Change to this attendee's copy of the course, creating it if needed, and use its package.

    Return the folder, or None if this is not a class's server.
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
