"""Atomic file replacement, and locks between processes."""

import errno
import fcntl
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends; if the block fails, `path` stays unchanged.

    Readers of `path` see the old or the new content, never a part. An OSError names `path`. With `durable`, the content
    is synced first, so that a host crash cannot leave an empty file.
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
        if error.filename in (None, str(part)):  # "disk full" comes without a name
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # it was renamed, or never created
            part.unlink()


def open_file(path: str | os.PathLike) -> BinaryIO:
    """Open a regular file for reading; OSError if it is anything else.

    A pipe would block its reader, and a link in another user's run may lead anywhere.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW))
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return file


def read(path: str | os.PathLike) -> bytes:
    """Return the content of a regular file."""
    with open_file(path) as file:
        return file.read()


def write(path: str | os.PathLike, content: str | bytes) -> None:
    """Write a file atomically, as `replacing` does."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def locked(path: str | os.PathLike, busy: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Hold a lock on the file `path`, which is created if needed, with its folder.

    If another process holds the lock, `busy` is called once before waiting; it may raise an exception instead. The
    system frees the lock when its holder ends. On a file system without locks, which some
    clusters have, the block runs without one, after a warning.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            warnings.warn(
                f"{path.parent} has no file locks ({error.strerror}): run one such command at a time", stacklevel=3
            )
        yield
