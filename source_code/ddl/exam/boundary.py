"""Plain data, as text: all that crosses between a submission and the tests that examine it.

A submission runs in one process, the tests in another. What one returns to the other is written
down here as JSON and read again strictly, so that nothing arrives but numbers, text, lists,
tuples, dictionaries and NumPy arrays: no class of the submission's, and so no method of its own.
An instance of a subclass of these types arrives as the plain type, with the value it really has.
"""

import base64
import binascii
import json

import numpy as np

__all__ = ["BoundaryError", "decode", "encode"]

DEPTH = 32  # of lists in lists; JSON's own parser gives up later
ITEMS = 1_000_000  # of all lists and dictionaries together
# Not longdouble, whose bytes mean something else on every machine.
DTYPES = {np.dtype(code).newbyteorder("<").str for code in "?bhiqBHIQefdFD"}


class BoundaryError(TypeError):
    """A value that cannot cross: it says which type, and what can."""


def encode(value):
    """Return `value` as a line of text.

    Parameters
    ----------
    value : None, bool, int, float, str, list, tuple, dict, numpy.ndarray or numpy.generic
        Lists, tuples and dictionaries of these, nested up to 32 deep. Arrays and NumPy's
        scalars are of a boolean, integer, float or complex type of at most 16 bytes.

    Raises
    ------
    BoundaryError
        When it holds anything else, or too much.
    """
    return json.dumps(_plain(value, DEPTH, [ITEMS]))


def decode(text):
    """Return the value that `text` stands for; the opposite of `encode`.

    Raises
    ------
    BoundaryError
        When the text is not what `encode` writes.
    """
    try:
        return _value(json.loads(text), DEPTH)
    except BoundaryError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise BoundaryError(f"what came back is not plain data: {error}") from None


def _plain(value, depth, left):
    """Return what JSON writes for `value`; everything is read through the plain type's methods."""
    left[0] -= 1
    if not depth:
        raise BoundaryError(f"a value nested more than {DEPTH} deep: return a flatter one")
    if left[0] < 0:
        raise BoundaryError(f"a value of more than {ITEMS:,} items: return a smaller one, or an "
                            "array")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain_array(value)
    if isinstance(value, int):
        return _short(int.__pos__(value))
    if isinstance(value, float):
        return float.__pos__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list):
        return [_plain(item, depth - 1, left) for item in list.__iter__(value)]
    if isinstance(value, tuple):
        return {"tuple": [_plain(item, depth - 1, left) for item in tuple.__iter__(value)]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key, depth - 1, left), _plain(item, depth - 1, left)]
                         for key, item in dict.items(value)]}
    raise BoundaryError(
        f"a value of type {type(value).__name__}: only None, bool, int, float, str, list, tuple, "
        "dict and NumPy arrays can be looked at")


def _short(number):
    if number.bit_length() > 14_000:  # JSON's reader refuses what has more than 4,300 digits
        raise BoundaryError(f"a whole number of {number.bit_length():,} bits")
    return number


def _plain_array(value):
    if isinstance(value, np.ma.MaskedArray):
        raise BoundaryError("a value of type MaskedArray: return a plain NumPy array")
    dtype = value.dtype.newbyteorder("<")
    if dtype.str not in DTYPES:
        raise BoundaryError(f"a NumPy value of type {dtype}: only numbers and booleans")
    array = np.array(value, dtype, subok=False, order="C")
    data = base64.b64encode(array.tobytes()).decode()
    if isinstance(value, np.generic):
        return {"scalar": [array.dtype.str, data]}
    return {"array": [array.dtype.str, list(array.shape), data]}


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
            return _dictionary(pairs, depth - 1)
        case [("array", [str(dtype), list(shape), str(data)])]:
            return _array(dtype, shape, data)
        case [("scalar", [str(dtype), str(data)])]:
            return _array(dtype, [], data)[()]
    raise BoundaryError("what came back is not plain data")


def _dictionary(pairs, depth):
    result = {}
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise BoundaryError("what came back is not plain data: a dictionary without pairs")
        key, item = (_value(part, depth) for part in pair)
        try:
            result[key] = item
        except TypeError:
            raise BoundaryError(f"a dictionary's key of type {type(key).__name__}") from None
    return result


def _array(dtype, shape, data):
    if dtype not in DTYPES:
        raise BoundaryError(f"a NumPy value of type {dtype[:20]!r}")
    if len(shape) > 32 or any(type(n) is not int or not 0 <= n < 2**31 for n in shape):
        raise BoundaryError("an array without a proper shape")
    try:
        content = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise BoundaryError("an array whose numbers cannot be read") from None
    expected = np.dtype(dtype).itemsize
    for length in shape:
        expected *= length
    if len(content) != expected:
        raise BoundaryError(f"an array of shape {tuple(shape)} with {len(content)} bytes")
    if not expected:
        return np.empty(shape, dtype)
    # A copy, because what is made on top of bytes cannot be written to.
    return np.frombuffer(content, dtype).reshape(shape).copy()
