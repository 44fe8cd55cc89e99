"""Serialization between a submission and its tests."""

import array as arrays
import base64
import enum
import itertools
import json
import math
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from course.grader import serialize
from course.grader.serialize import BoundaryError, decode, encode

PLAIN = [
    None, True, False, 0, -7, 10**4000, 0.1, -0.0, math.inf, "", "naïve \ud800 \n", [],
    [1, [2, []]], (), (1, (2.5, "x")), {}, {"a": 1, 2: (3,), (4, 5): [None], None: {True: False}},
    {1, "a"}, frozenset({(1, 2)}), {frozenset({0, 1}): 25}, b"\0x", 1 - 2j,
]  # fmt: skip


def test_plain_data_crosses():
    for value in PLAIN:
        back = decode(encode(value))
        assert back == value and type(back) is type(value)
        assert "\n" not in encode(value)
    assert math.isnan(decode(encode(math.nan)))
    assert math.copysign(1, decode(encode(-0.0))) == -1
    for value in (np.float64(0.1), np.float32(0.1), np.int8(-1), np.bool_(True), np.complex64(1j)):
        back = decode(encode(value))
        assert type(back) is type(value) and back == value


def test_arrays_cross():
    grid = np.arange(12).reshape(3, 4)
    views = [grid.T, grid[::2, ::-1], np.broadcast_to(grid[0], (5, 4)), np.zeros(()), np.zeros((0, 4))]
    for array in [*(grid.astype(dtype) for dtype in "? b H i Q e f d F D >i4 >f8".split()), *views]:
        back = decode(encode(array))
        assert type(back) is np.ndarray and back.dtype == array.dtype.newbyteorder("<")
        assert back.shape == array.shape and np.array_equal(back, array)
        back[...] = 0  # it can be written to


class Always:
    __eq__ = __lt__ = __gt__ = lambda self, other: True
    __hash__ = None


def test_a_subclass_arrives_as_the_plain_type():
    for value in (3, 3.5, "three", [3], (3,), {3: 4}):
        back = decode(encode(type("Sub", (Always, type(value)), {})(value)))
        assert type(back) is type(value) and back == value
    assert decode(encode(namedtuple("Pair", "x y")(1, 2))) == (1, 2)
    assert decode(encode(enum.IntEnum("Three", "one two").two)) == 2
    assert type(decode(encode(OrderedDict(a=1)))) is dict
    array = np.arange(3).view(type("Sub", (Always, np.ndarray), {}))
    assert type(decode(encode(array))) is np.ndarray


@pytest.mark.parametrize("value, name", [
    (object(), "object"), (Always(), "Always"), ({Ellipsis}, "ellipsis"),
    (len, "builtin_function_or_method"), ([1, [Always()]], "Always"),
    (np.array([Always()]), "Always"), (np.array([b"x"]), "S1"), (pd.DataFrame(), "DataFrame"),
    (np.ma.array([1]), "MaskedArray"), (np.datetime64("2026-11-21"), "datetime64"),
    (Fraction(10**400), "Fraction that does not fit"), (Decimal("sNaN"), "Decimal that does not fit"),
    (itertools.count(), "1,000 items"), (range(10**12), "1,000 items"),
    (np.broadcast_to(np.array(["x"]), (10**7,)), "1,000 items"),
    (10**5000, "whole number of 16,610 bits"), (list(range(1_001)), "1,000 items"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_other_types_are_refused_by_name(monkeypatch, value, name):
    monkeypatch.setattr(serialize, "ITEMS", 1_000)
    with pytest.raises(BoundaryError, match=name):
        encode(value)


TABLE = {"a": 1, "b": 2}


@pytest.mark.parametrize("value, arrives", [
    (range(1, 7, 2), [1, 3, 5]), ((n * n for n in (1, 2)), [1, 4]), (map(str, [1]), ["1"]),
    (zip([1], "a"), [(1, "a")]), (filter(None, [0, 1]), [1]), (reversed([1, 2]), [2, 1]),
    (itertools.chain([1], [2]), [1, 2]), (enumerate("a"), [(0, "a")]), (TABLE.keys(), ["a", "b"]),
    (TABLE.values(), [1, 2]), (TABLE.items(), [("a", 1), ("b", 2)]), (deque([1]), [1]),
    (arrays.array("d", [1.5]), [1.5]), (Fraction(1, 4), 0.25), (Decimal("0.25"), 0.25),
    (np.str_("PIX"), "PIX"), ([np.str_("a")], ["a"]), ([range(2), map(abs, [-1])], [[0, 1], [1]]),
    (Counter("aab"), {"a": 2, "b": 1}), (defaultdict(list, a=[1]), {"a": [1]}),
    (MappingProxyType(TABLE), TABLE), (np.longdouble(0.5), 0.5), (bytearray(b"x"), b"x"),
    (type("Sub", (Always, set), {})({1}), {1}), (type("Sub", (Always, Fraction), {})(1, 2), 0.5),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_list_and_number_like_values_are_converted(value, arrives):
    back = decode(encode(value))
    assert back == arrives and type(back) in (type(arrives), np.float64)


def test_endless_or_raising_value_is_not_encoded():
    def broken():
        yield 1
        raise KeyError("x")

    with pytest.raises(KeyError):
        encode(broken())
    endless = []
    endless.append(endless)
    with pytest.raises(BoundaryError, match="32 deep"):
        encode(endless)


def array(dtype="<f8", shape=(1,), data=bytes(8)):
    return {"array": [dtype, list(shape), base64.b64encode(data).decode()]}


@pytest.mark.parametrize("text", [
    "", "[1", "nul", "9" * 5000, "[" * 100_000, "[" * 40 + "]" * 40, "{}", '{"class": []}',
    '{"tuple": 1}', '{"tuple": [], "dict": []}', '{"dict": {"a": 1}}', '{"dict": [[1]]}',
    '{"set": [[]]}', '{"set": 1}', '{"bytes": "%"}', '{"complex": [1, 2]}',
    '{"items": ["U", [1], [1]]}', '{"items": ["U", [2], ["a"]]}', '{"items": ["O", [-1], [1]]}',
    '{"items": ["V", [1], [1]]}', '{"dict": [[[], 1]]}', '{"dict": [[{"dict": []}, 1]]}',
    '{"scalar": ["<f8", "AAAA"]}', '{"complex": ["", 1.0]}',
    '{"array": ["<f8", [1], "%%%"]}', '{"array": ["<f8", [1], "é"]}',
    *map(json.dumps, [
        array("|O"), array("O"), array("<M8[s]"), array("|V8"), array("<f8", (2,)),
        array(shape=(-1,)), array(shape=(True,)), array(shape=(1.0,)), array(shape=(2**40,)),
        array(shape=(0, 2**31 - 1, 2**31 - 1, 2**31 - 1), data=b""), array(shape=(1,) * 40),
        {"array": ["<f8", "x", ""]}, {"array": [["<f8"], [1], ""]}, {"array": []},
    ]),
])  # fmt: skip
def test_invalid_encoding_is_refused(text):
    with pytest.raises(BoundaryError):
        decode(text)
