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


def as_array(value: Any) -> Any:
    """Return an array, or a tensor or variable of any framework, as a NumPy array; PyTorch's bfloat16 as float32."""
    import numpy

    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu()
        value = value.float() if "bfloat16" in str(value.dtype) else value  # NumPy has none
    return value.numpy() if hasattr(value, "numpy") else numpy.asanyarray(value)


def summary_of(name: str, value: Any) -> tuple[str, float]:
    """Return the checksum of an array, tensor or variable, with its shape and dtype, and its L2 norm.

    InputError names a value that is none, or that has no norm, such as an array of strings.
    """
    import numpy

    try:
        array = numpy.asarray(as_array(value))
        numbers = array if array.dtype.kind == "c" else array.astype(float)
        norm = float(numpy.linalg.norm(numbers.ravel()))
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: such as a tensor without data
        kind = type(value).__name__
        raise InputError(f"{name} must be an array or a dense tensor of numbers, got {kind}: {error}") from error
    form = numpy.frombuffer(f"{array.dtype}{array.shape}".encode(), numpy.uint8)
    return checksum([form, array]), norm
