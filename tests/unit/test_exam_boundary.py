"""What crosses between a submission and its tests, and what does not."""

import base64
import enum
import json
import math
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from ddl.exam import BoundaryError
from ddl.exam.boundary import decode, encode

PLAIN = [
    None, True, False, 0, -7, 10**4000, 0.1, -0.0, math.inf, "", "naïve \ud800 \n", [],
    [1, [2, []]], (), (1, (2.5, "x")), {}, {"a": 1, 2: (3,), (4, 5): [None], None: {True: False}},
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: ascii(value)[:20])
def test_plain_data_crosses(value):
    back = decode(encode(value))
    assert back == value and type(back) is type(value)
    assert "\n" not in encode(value)


def test_not_a_number_and_minus_zero_cross():
    assert math.isnan(decode(encode(math.nan)))
    assert math.copysign(1, decode(encode(-0.0))) == -1


@pytest.mark.parametrize("dtype", "? b H i Q e f d F D >i4 >f8".split())
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_arrays_cross(dtype, shape):
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    back = decode(encode(array))
    assert type(back) is np.ndarray and back.dtype == array.dtype.newbyteorder("<")
    assert back.shape == shape and np.array_equal(back, array)
    back[...] = 0  # it can be written to


def test_what_lies_otherwise_in_memory_crosses():
    array = np.arange(12).reshape(3, 4)
    for view in (array.T, array[::2, ::-1], np.broadcast_to(array[0], (5, 4))):
        assert np.array_equal(decode(encode(view)), view)


def test_numpy_numbers_stay_numpy_numbers():
    for value in (np.float64(0.1), np.float32(0.1), np.int8(-1), np.bool_(True), np.complex64(1j)):
        back = decode(encode(value))
        assert type(back) is type(value) and back == value


class Always:
    __eq__ = __lt__ = __gt__ = lambda self, other: True
    __hash__ = None


@pytest.mark.parametrize("base, content", [
    (int, 3), (float, 3.5), (str, "three"), (list, [3]), (tuple, (3,)), (dict, {3: 4}),
])  # fmt: skip
def test_a_subclass_arrives_as_the_plain_type(base, content):
    back = decode(encode(type("Sub", (Always, base), {})(content)))
    assert type(back) is base and back == content


def test_other_subclasses_arrive_so_too():
    assert decode(encode(namedtuple("Pair", "x y")(1, 2))) == (1, 2)
    assert decode(encode(enum.IntEnum("Three", "one two").two)) == 2
    assert type(decode(encode(OrderedDict(a=1)))) is dict
    array = np.arange(3).view(type("Sub", (Always, np.ndarray), {}))
    assert type(decode(encode(array))) is np.ndarray


@pytest.mark.parametrize("value, name", [
    (object(), "object"), (Always(), "Always"), ({1, 2}, "set"), (b"x", "bytes"), (1j, "complex"),
    (len, "builtin_function_or_method"), (range(3), "range"), ([1, [Always()]], "Always"),
    (np.array([None]), "object"), (np.array(["x"]), "<U1"), (np.longdouble(1), "longdouble|float"),
    (np.ma.array([1]), "MaskedArray"), (np.datetime64("2026-11-21"), "datetime64"),
    (10**5000, "whole number of 16,610 bits"), (list(range(1_000_001)), "1,000,000 items"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_anything_else_is_refused_by_name(value, name):
    with pytest.raises(BoundaryError, match=name):
        encode(value)


def test_endless_nesting_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(BoundaryError, match="32 deep"):
        encode(endless)


def array(dtype="<f8", shape=(1,), data=bytes(8)):
    return {"array": [dtype, list(shape), base64.b64encode(data).decode()]}


@pytest.mark.parametrize("text", [
    "", "[1", "nul", "9" * 5000, "[" * 100_000, "[" * 40 + "]" * 40, "{}", '{"class": []}',
    '{"tuple": 1}', '{"tuple": [], "dict": []}', '{"dict": {"a": 1}}', '{"dict": [[1]]}',
    '{"dict": [[[], 1]]}', '{"dict": [[{"dict": []}, 1]]}', '{"scalar": ["<f8", "AAAA"]}',
    '{"array": ["<f8", [1], "%%%"]}', '{"array": ["<f8", [1], "é"]}',
    *map(json.dumps, [
        array("|O"), array("O"), array("<M8[s]"), array("|V8"), array("<f8", (2,)),
        array(shape=(-1,)), array(shape=(True,)), array(shape=(1.0,)), array(shape=(2**40,)),
        array(shape=(0, 2**31 - 1, 2**31 - 1, 2**31 - 1), data=b""), array(shape=(1,) * 40),
        {"array": ["<f8", "x", ""]}, {"array": [["<f8"], [1], ""]}, {"array": []},
    ]),
])  # fmt: skip
def test_what_was_not_encoded_is_not_decoded(text):
    with pytest.raises(BoundaryError):
        decode(text)
