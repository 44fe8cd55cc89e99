"""Checksums of arrays, as ranks record them to be compared."""

import zlib
from collections.abc import Iterable
from typing import Any

from ddl.errors import InputError


def checksum(arrays: Iterable) -> str:
    """Return the CRC-32 of concatenated NumPy arrays as eight hexadecimal digits."""
    import numpy  # ranks that record no checksums may do without

    value = 0
    for array in arrays:
        value = zlib.crc32(numpy.ascontiguousarray(array).tobytes(), value)
    return f"{value:08x}"


def summary_of(name: str, value: Any) -> tuple[str, float]:
    """Return the checksum and the L2 norm of an array, tensor or variable; InputError names one that is none."""
    import numpy

    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value  # NumPy has none
    array = numpy.asarray(value)
    if array.dtype == object:
        raise InputError(f"{name} must be an array or a dense tensor, got {type(value).__name__}: convert it first")
    return checksum([array]), float(numpy.linalg.norm(array.astype(float).ravel()))
