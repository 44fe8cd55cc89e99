"""Serialization of plain data between a submission and its tests, which run in another process.

Values are written as JSON and parsed strictly, so only numbers, text, lists, tuples, sets, dictionaries and NumPy
arrays arrive, and none of the submission's classes or methods. An instance of a subclass arrives as the plain type with
its real value; ranges, fractions and the like arrive as lists or numbers.
"""

import array
import base64
import json
import sys
from collections import deque
from collections.abc import Iterator, MappingView
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from types import MappingProxyType

import numpy as np

from ddl.errors import CourseError

DEPTH = 32  # of nested lists; JSON's parser gives up later
ITEMS = 1_000_000  # of all lists and dictionaries together
# Without longdouble, whose bytes differ between machines.
DTYPES = {np.dtype(code).newbyteorder("<").str for code in "?bhiqBHIQefdFD"}
ROUNDED = {"g": "<f8", "G": "<c16"}  # longdouble and its complex type
# Read item by item; arrive as lists.
SERIES = (range, deque, array.array, memoryview, Iterator, MappingView)
TENSORS = ("tensorflow", "torch")  # packages whose tensors and variables arrive as arrays


class BoundaryError(CourseError, TypeError):
    """Value that cannot be serialized; the message has its type."""


def encode(value):
    """Return plain data as a line of text. Raises BoundaryError for other or too much data.

    Plain data are None, booleans, numbers, text, bytes, NumPy's scalars and arrays, and lists, tuples, sets and
    dictionaries of these, nested up to 32 deep. A fraction or a decimal number becomes a float; a range, an iterator, a
    view of a dictionary, a deque or an `array.array` becomes a list; a tensor or a pandas series becomes an array. An
    iterator is consumed, and may raise any exception.
    """
    return json.dumps(_plain(value, DEPTH, [ITEMS]))


def decode(text):
    """Return the value that `encode` wrote; raise BoundaryError if it cannot have written `text`."""
    try:
        return _value(json.loads(text), DEPTH)
    except BoundaryError:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise BoundaryError(f"what came back is not plain data: {error}") from None


def _plain(value, depth, left):
    """Return the JSON form of `value`, using only the plain types' methods."""
    left[0] -= 1
    if not depth:
        raise BoundaryError(f"a value nested more than {DEPTH} deep: return a flatter one")
    if left[0] < 0:
        raise BoundaryError(f"a value of more than {ITEMS:,} items: return a smaller one, or an array")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):  # first: NumPy's text is both
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain_array(value, depth, left)
    if isinstance(value, int):
        if int.bit_length(value) > 14_000:  # JSON's reader refuses more than 4,300 digits
            raise BoundaryError(f"a whole number of {int.bit_length(value):,} bits")
        return int.__pos__(value)
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, complex):
        return {"complex": [complex.__pos__(value).real, complex.__pos__(value).imag]}
    if isinstance(value, (Fraction, Decimal)):
        try:
            return float(value)
        except (OverflowError, ValueError):  # of a signaling NaN
            raise BoundaryError(f"a {type(value).__name__} that does not fit into a float") from None
    if isinstance(value, list):
        return [_plain(item, depth - 1, left) for item in list.__iter__(value)]
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [_plain(item, depth - 1, left) for item in kind.__iter__(value)]}
    if isinstance(value, MappingProxyType):
        value = dict(value)
    if isinstance(value, dict):
        return {
            "dict": [[_plain(key, depth - 1, left), _plain(item, depth - 1, left)] for key, item in dict.items(value)]
        }
    if isinstance(value, SERIES):
        return [_plain(item, depth - 1, left) for item in islice(iter(value), left[0] + 1)]
    if type(value).__module__.partition(".")[0] in TENSORS and hasattr(value, "numpy"):
        value = value.detach().cpu() if hasattr(value, "detach") else value
        return _plain_array(np.asarray(value.numpy())[()], depth, left)
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(value, (pandas.Series, pandas.Index)):
        return _plain_array(np.asarray(value), depth, left)
    raise BoundaryError(
        f"a value of type {type(value).__name__}: only None, numbers, text, lists, tuples, sets, "
        "dictionaries and NumPy arrays can be checked"
    )


def _plain_array(value, depth, left):
    if isinstance(value, np.ma.MaskedArray):
        raise BoundaryError("a value of type MaskedArray: return a plain NumPy array")
    dtype = np.dtype(ROUNDED.get(value.dtype.char, value.dtype)).newbyteorder("<")
    if dtype.kind in "UO":
        plain = np.array(value, subok=False)
        # Count before creating them: an array can repeat one item a million times.
        if plain.size > left[0]:
            raise BoundaryError(f"a value of more than {ITEMS:,} items: return a smaller one")
        items = [_plain(item, depth - 1, left) for item in plain.ravel().tolist()]
        return {"items": [dtype.kind, list(plain.shape), items]}
    if dtype.str not in DTYPES:
        raise BoundaryError(f"a NumPy value of type {dtype}: only numbers, booleans and text")
    plain = np.array(value, dtype, subok=False, order="C")
    data = base64.b64encode(plain.tobytes()).decode()
    if isinstance(value, np.generic):
        return {"scalar": [plain.dtype.str, data]}
    return {"array": [plain.dtype.str, list(plain.shape), data]}


def _value(plain, depth):
    if not depth:
        raise BoundaryError(f"what came back is nested more than {DEPTH} deep")
    if isinstance(plain, list):
        return [_value(item, depth - 1) for item in plain]
    if not isinstance(plain, dict):
        return plain
    match list(plain.items()):
        case [("tuple", list(items))]:
            return tuple(_value(item, depth - 1) for item in items)
        case [("dict", list(pairs))]:
            return {_value(key, depth - 1): _value(item, depth - 1) for key, item in pairs}
        case [("set" | "frozenset" as kind, list(items))]:
            return {"set": set, "frozenset": frozenset}[kind](_value(item, depth - 1) for item in items)
        case [("bytes", str(data))]:
            return base64.b64decode(data, validate=True)
        case [("complex", [float(real), float(imaginary)])]:
            return complex(real, imaginary)
        case [("items", ["U" | "O" as kind, list(shape), list(items)])]:
            flat = np.empty(len(items), object)
            flat[:] = [_value(item, depth - 1) for item in items]
            if kind == "U" and not all(isinstance(item, str) for item in flat):
                raise BoundaryError("an array of text with something else in it")
            return _shaped(flat.astype(str) if kind == "U" else flat, shape)
        case [("array", [str(dtype), list(shape), str(data)])]:
            return _array(dtype, shape, data)
        case [("scalar", [str(dtype), str(data)])]:
            return _array(dtype, [], data)[()]
    raise BoundaryError("what came back is not plain data")


def _array(dtype, shape, data):
    if dtype not in DTYPES:
        raise BoundaryError(f"a NumPy value of type {dtype[:20]!r}")
    content = bytearray(base64.b64decode(data, validate=True))  # unlike bytes, it makes a writable array
    return _shaped(np.frombuffer(content, dtype) if content else np.empty(0, dtype), shape)


def _shaped(flat, shape):
    if any(type(n) is not int or n < 0 for n in shape):  # NumPy would infer a length of -1
        raise BoundaryError("an array without a proper shape")
    return flat.reshape(shape)
