"""A reader's own function in place of the course's."""

import pytest

from course import working


def double(x):
    return 2 * x


def solved(x):
    return 2.0001 * x  # as exact as a solver


def wrong(x):
    return x + 1


def missing(x):
    raise NotImplementedError


def pairs(x):
    return [("F", x), None]


def lists(x):
    return [["F", x], None]


@pytest.mark.parametrize(
    ("answer", "ours", "taken", "word"),
    [
        (double, lambda x: x + x, double, "your double"),
        (double, solved, double, "your double"),
        (wrong, double, double, "differs"),
        (missing, double, double, "NotImplementedError"),
        (pairs, lists, pairs, "your pairs"),
        (pairs, double, double, "differs"),
    ],
)
def test_only_a_right_answer_is_used(answer, ours, taken, word, capsys):
    assert working(answer, ours, 3) is taken
    assert word in capsys.readouterr().out
