"""Files that appear whole or not at all, and locks between processes. Needs the standard library only."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def opened(path: str | os.PathLike) -> BinaryIO:
    """Open a regular file to read; OSError for what is none, such as a FIFO, which would keep its reader waiting."""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return file


@contextmanager
def replacing(path: str | os.PathLike, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of `path` when the block ends.

    Whoever reads `path` finds the old or the new file, never a part; where the block fails, the old one stays and
    nothing else is left. An OSError names `path`. `durable` syncs the content first, so that a host that fails does not
    leave the name of an empty file.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        with open(part, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        if error.filename in (None, str(part)):  # a full disk is told without a name
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # such as a read-only disk, where there is none
            part.unlink()


def write(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file whole or not at all, as `replacing` does."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(path: str | os.PathLike, busy: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold the lock file `path`, made with its folder where it is missing.

    Where another process holds it, `busy` is called once before waiting; what it raises ends the wait. The system frees
    the lock when its holder dies.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
