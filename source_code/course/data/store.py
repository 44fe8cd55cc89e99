"""Files of arrays that ranks map into memory.

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

ALIGNMENT = 64  # bytes: TensorFlow's kernels want aligned memory


def write(path: Path, **arrays: np.ndarray | str | int) -> None:
    """Write arrays or scalars to `path` atomically, each as a field."""
    fields = {name: np.asarray(value, order="C") for name, value in arrays.items()}
    record = _record(fields)
    header = {"descr": np.lib.format.dtype_to_descr(record), "fortran_order": False, "shape": (1,)}
    # Plain writes, so that a full disk raises OSError; with a mapping it would raise SIGBUS.
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, header)
        for field in fields.values():
            file.write(field.data)
            file.write(bytes(-field.nbytes % ALIGNMENT))


def _record(fields):
    """Return a structured dtype whose fields are aligned to `ALIGNMENT`."""
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
    """Map a file of `write` into memory; return None if it is missing, incomplete or has other fields."""
    try:
        record = np.load(path, mmap_mode="r", allow_pickle=False)
        # On a slow disk, read ahead sequentially while the rank starts, not image by image.
        record._mmap.madvise(mmap.MADV_WILLNEED)
        arrays = {name: record[name][0] for name in record.dtype.names}
    except (OSError, EOFError, ValueError, TypeError):
        return None
    return arrays if all(str(arrays.get(name)) == str(value) for name, value in facts.items()) else None


def fingerprint(files: Sequence[Path], version: int) -> str:
    """Return a fingerprint that changes with any of the files or with the version of the format."""
    facts = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return hashlib.sha256(repr((version, facts)).encode()).hexdigest()


def kept(path: Path, source: str, decode: Callable[[], dict]) -> Arrays:
    """Return the arrays stored in `path` for this `fingerprint`; if there are none, decode and store them."""
    arrays = read(path, source=source)
    if arrays is None:
        arrays = decode()
        with suppress(OSError):  # with a read-only or full folder, each start decodes again
            write(path, source=source, **arrays)
    return arrays
