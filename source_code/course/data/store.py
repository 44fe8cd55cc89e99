"""Arrays in one file that ranks map into memory instead of reading.

The file is an ordinary ``.npy`` with a single structured record, one field per array. Mapping it takes a millisecond,
and the ranks of a host share its pages.
"""

import hashlib
import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from ddl.records.files import replacing

Arrays = dict[str, np.ndarray]

ALIGNMENT = 64  # bytes: TensorFlow's kernels want memory that begins at a multiple of so many


def write(path: Path, **arrays: np.ndarray | str | int) -> None:
    """Write arrays or scalars to `path` whole or not at all, each as a field."""
    fields = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    record = _record(fields)
    header = {"descr": np.lib.format.dtype_to_descr(record), "fortran_order": False, "shape": (1,)}
    # Plain writes: a full disk is then an OSError; through a mapping it would be a SIGBUS.
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for field in fields.values():
            file.write(field.data)
            file.write(bytes(-field.nbytes % ALIGNMENT))


def _record(fields):
    """Return the structured type of a record in which every field begins at a multiple of `ALIGNMENT`."""
    sizes = [field.nbytes + -field.nbytes % ALIGNMENT for field in fields.values()]
    return np.dtype(
        {
            "names": list(fields),
            "formats": [(field.dtype, field.shape) for field in fields.values()],
            "offsets": [sum(sizes[:index]) for index in range(len(sizes))],
            "itemsize": sum(sizes),
        }
    )


def read(path: Path, **facts: str | int) -> Arrays | None:
    """Map a file of `write` into memory; None where it is missing, incomplete, or other than these fields say."""
    try:
        record = np.load(path, mmap_mode="r", allow_pickle=False)
        # From a slow disk: in its order, while the rank prepares, and not picture by picture.
        record._mmap.madvise(mmap.MADV_WILLNEED)
        arrays = {name: record[name][0] for name in record.dtype.names}
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return arrays if all(str(arrays.get(name)) == str(value) for name, value in facts.items()) else None


def fingerprint(files: Sequence[Path], version: int) -> str:
    """Return a text that changes whenever one of the files does, or the version of what is kept."""
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr((version, facts)).encode()).hexdigest()


def kept(path: Path, source: str, decode: Callable[[], dict]) -> Arrays:
    """Return the arrays that `path` keeps of a source with this `fingerprint`, else decode them and keep them there."""
    arrays = read(path, source=source)
    if arrays is None:
        arrays = decode()
        with suppress(OSError):  # a read-only or full folder costs time at each start, nothing else
            write(path, source=source, **arrays)
    return arrays
