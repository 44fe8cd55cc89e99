"""Share where you are with the instructor of a class: only what an attendee chooses to, in a file of their own.

``DDL_CLASS`` names the class's folder, in which every attendee's file is ``NAME.json``::

    {"name": "ann", "lesson": "1.Gradient-Basics", "time": 1700000000.0, "passes": {"1.Gradient-Basics": {"q01": true}}}
"""

import contextlib
import os
import time
from pathlib import Path

from course.grader import journal
from course.grader.handin import student
from course.grader.progress import progress
from ddl.errors import InputError
from ddl.records.jsonfiles import write_json


def share(on: bool = True) -> str:
    """Share where you are with your instructor, or end that; return a sentence that says what is shared."""
    folder = os.environ.get(journal.CLASS)
    if not folder:
        raise InputError(f"there is no class to share with: {journal.CLASS} names no folder")
    path = Path(folder, f"{student()}.json")
    journal.keep_sharing(on)
    if not on:
        path.unlink(missing_ok=True)
        return "Nothing of yours is shared any more."
    _write(path, "")
    return (
        f"Your instructor sees from now on, renewed by each check: your name ({student()}), the lesson that you "
        "checked, whether each question passes its tests, and when. Never code, answers or outputs. "
        "`share(False)` or `ddl share off` ends this."
    )


def renew(lesson: str) -> None:
    """Write anew what is shared after a lesson was checked, where its attendee has chosen to share."""
    folder = os.environ.get(journal.CLASS)
    if folder and journal.sharing():
        with contextlib.suppress(OSError, InputError):  # the check is what was asked for
            _write(Path(folder, f"{student()}.json"), lesson)


def _write(path, lesson):
    passes = {}
    for each in progress().lessons:
        marks = {q.name: q.state == "done" for q in each.tested if q.state in ("done", "failed")}
        passes |= {each.path.stem: marks} if marks else {}
    write_json(path, {"name": path.stem, "lesson": lesson, "time": time.time(), "passes": passes})
    path.chmod(0o640)  # for the folder's group, which is its owner's: see `make hub`
