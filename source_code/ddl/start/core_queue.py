"""A queue for shared cores: runs of several users on one machine take turns instead of slowing each other down.

``DDL_QUEUE`` names a folder, which is made if needed. Each run locks a file there (``flock``), and writes to it whose
turn it is. The kernel wakes those that wait in about their order, and frees the lock however its holder ends.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import IO

from ddl.errors import InputError

QUEUE = "DDL_QUEUE"
LOOK_EVERY_S = 0.3


def take_turn(name: str, stopping: Event, say: Callable[[str], object]) -> IO[str] | None:
    """Wait until it is this run's turn; closing the file that is returned ends it.

    Calls `say` every `LOOK_EVERY_S` seconds with what the run waits for. Returns None at once if `stopping` is set.
    """
    path = Path(os.environ[QUEUE]) / "turn"
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):  # another user has just made it
                path.parent.chmod(0o755)
                path.touch()
                path.chmod(0o666)
        file = open(path, "r+")
    except OSError as error:
        raise InputError(
            f"{QUEUE}={path.parent} cannot be used ({error.strerror}): name a folder to write to"
        ) from None
    _require_locks(file)
    lock = Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True)
    lock.start()
    lock.join(0.05)
    while lock.is_alive() and not stopping.is_set():
        say(f"waiting for its turn: the cores are used by {path.read_text()}")
        lock.join(LOOK_EVERY_S)
    if lock.is_alive():
        return None
    file.write(name)
    file.truncate()
    file.flush()
    return file


def _require_locks(file: IO[str]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another run has its turn
        return
    except OSError as error:
        raise _unusable(f"as its file system has no locks ({error.strerror})") from None


def _unusable(why: str) -> InputError:
    return InputError(f"{QUEUE}={os.environ[QUEUE]} cannot be used {why}: name another folder that you can write to")
