"""The report for a person: each flag on a file that has it, and none on honest ones."""

import base64
from dataclasses import replace

import numpy as np
import pytest

from course.challenge import rules
from course.challenge.report import known_share, report
from course.challenge.submission import BASELINE
from submissions import TINY

WEIGHTS = base64.b85encode(np.random.default_rng(0).bytes(6_000)).decode()  # no compression makes them smaller
NUMBERS = [round(number, 4) for number in np.random.default_rng(0).normal(size=300).tolist()]


@pytest.mark.parametrize("name", ["baseline.py", "reference.py"])
def test_course_submissions_have_no_flags(name):
    assert report(BASELINE.with_name(name).read_bytes()).flags == []


FLAGGED = {
    "weights in a string": (f"WEIGHTS = {WEIGHTS!r}\n", ["line 19 has a constant of 7,", "when compressed"]),
    "weights in a list": (f"WEIGHTS = {NUMBERS!r}\n", ["line 19 has a constant of 2,"]),
    "weights in a dictionary": (f"WEIGHTS = {{'kernel': {tuple(NUMBERS)!r}}}\n", ["line 19 has a constant of 2,"]),
    "weights in pieces": (
        "".join(f"W{n} = {WEIGHTS[60 * n : 60 * (n + 1)]!r}\n" for n in range(120)),
        ["when compressed"],
    ),
    "imports": ("import urllib.request\nfrom course import data\n", ["course, urllib.request"]),
    "usual imports": ("from tensorflow.keras import layers\nimport math, numpy as np\n", []),
    "calls": ("DATA = open('/data').read()\n__import__('os')\n", ["__import__(), open()"]),
}


@pytest.mark.parametrize("name", FLAGGED)
def test_large_constants_and_unusual_imports_are_flagged(name):
    text, words = FLAGGED[name]
    flags = report((TINY.strip() + "\n\n\n\n" + text).encode()).flags
    assert len(flags) == len(words) and all(word in flag for word, flag in zip(words, flags, strict=True)), flags


def test_pretrained_network_is_flagged():
    labels = np.arange(1000) % 10
    random = np.random.default_rng(0).integers(0, 10, 1000).tolist()
    knowing = [(label * 3 + 1) % 10 if number % 3 else 0 for number, label in enumerate(labels)]  # by other names
    assert known_share(random, labels) < 0.2 < rules.UNTRAINED_ACCURACY < known_share(knowing, labels)
    found = report(TINY.encode())
    assert replace(found, untrained=known_share(random, labels)).flags == []
    (flag,) = replace(found, untrained=known_share(knowing, labels)).flags
    assert "untrained network" in flag
    for nothing in (None, [], [1] * 1001, "many"):
        assert known_share(nothing, labels) is None
