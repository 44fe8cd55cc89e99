"""Arrays in one file that ranks map into memory instead of reading.

The file is an ordinary ``.npy`` with a single structured record, one field per array. Mapping it
takes a millisecond, and the ranks of a host share its pages.
"""

import fcntl
import hashlib
import os
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np

__all__ = ["fingerprint", "kept", "locked", "read", "write"]


def write(path, **arrays):
    """Write `arrays` to `path` whole or not at all.

    Parameters
    ----------
    path : Path
    **arrays
        Arrays or scalars (a `str` too), each becomes a field.

    Raises
    ------
    OSError
        When the disk is full or the folder can not be written; nothing is left behind.
    """
    arrays = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    record = np.dtype([(name, value.dtype, value.shape) for name, value in arrays.items()])
    header = {"descr": np.lib.format.dtype_to_descr(record), "fortran_order": False, "shape": (1,)}
    path = Path(path)
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        # Plain writes: a full disk is then an OSError; through a mapping it would be a SIGBUS.
        with open(part, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for value in arrays.values():
                file.write(value.data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def read(path):
    """Map a file of `write` into memory.

    Returns
    -------
    dict of str to numpy.ndarray or None
        None where the file is missing or incomplete.
    """
    try:
        record = np.load(path, mmap_mode="r", allow_pickle=False)
        return {name: record[name][0] for name in record.dtype.names}
    except (OSError, EOFError, ValueError, TypeError):
        return None


def fingerprint(files, version):
    """Return a text that changes whenever one of the files does, or the version of what is kept."""
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr((version, facts)).encode()).hexdigest()


def kept(path, source, decode):
    """Return decoded arrays: those that `path` keeps of this source, else new ones, kept from then.

    Parameters
    ----------
    path : Path
    source : str
        The source's `fingerprint`.
    decode : callable
        Called without arguments; returns the arrays by name.

    Returns
    -------
    dict of str to numpy.ndarray
    """
    arrays = read(path)
    if arrays is None or str(arrays.get("source")) != source:
        arrays = decode()
        try:
            write(path, source=source, **arrays)
        except OSError:
            pass  # A read-only or full folder costs time at each start, nothing else.
    return arrays


@contextmanager
def locked(path, waiting=lambda: None):
    """Hold the lock file `path`; one process of the machine at a time gets in.

    Parameters
    ----------
    path : Path
        Made where it is missing, with its folder. The system frees the lock when its holder dies.
    waiting : callable
        Called once when another process holds the lock.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
