"""The driver of any all-reduce in which each rank sends one message a step."""

import numpy
import pytest

from ddl.analysis import cost
from ddl.analysis.collective import exchange


def chunk(number, ranks, count):
    return count * number // ranks, count * (number + 1) // ranks


def ring(data):
    ranks = len(data)
    return exchange(
        data,
        2 * (ranks - 1),
        lambda step, rank, ranks: (rank + 1) % ranks,
        lambda step, rank, ranks, count: chunk((rank - step) % ranks, ranks, count),
    )


def halves(step, rank, ranks, count):
    """Halving and doubling that begins with neighbours: the bits of a rank from the lowest on."""
    rounds = ranks.bit_length() - 1
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for bit in range(level + 1):
        own = rank >> bit & 1
        middle = (first + end) // 2
        upper = own ^ (bit == level and step < rounds)
        first, end = (middle, end) if upper else (first, middle)
    return first, end


def neighbour(step, rank, ranks):
    rounds = ranks.bit_length() - 1
    return rank ^ 1 << min(step, 2 * rounds - 1 - step)


@pytest.mark.parametrize("count", [0, 1, 5, 16, 37])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_both_algorithms_add_up_and_send_what_the_model_counts(ranks, count):
    data = numpy.random.default_rng(count).normal(size=(ranks, count))
    rounds = ranks.bit_length() - 1
    for done, name in ((ring(data), "ring"), (exchange(data, 2 * rounds, neighbour, halves), "halving and doubling")):
        assert numpy.allclose(done.arrays, data.sum(axis=0))
        messages, share = cost.terms(name, ranks)
        assert sum(done.sent) == pytest.approx(share * count * ranks)
        assert messages == (2 * (ranks - 1) if name == "ring" else 2 * rounds)


def test_the_callers_arrays_stay_as_they_are():
    data = [numpy.ones(2), numpy.ones(2)]
    exchange(data, 2, neighbour, halves)
    assert [array.tolist() for array in data] == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("partner", "piece", "message"),
    [
        (lambda *_: 4, halves, "partner.*is 4: another rank"),
        (lambda step, rank, ranks: rank, halves, "is 0: another rank"),
        (lambda *_: True, halves, "is True: another rank"),
        (lambda *_: None, halves, "is None: another rank"),
        (lambda *_: 1.0, halves, "is 1.0: another rank"),
        (lambda step, rank, ranks: 3 if rank < 3 else 0, halves, "two ranks send to rank 3"),
        (neighbour, lambda *_: (0, 9), "piece.*0 ≤ first ≤ end ≤ 8"),
        (neighbour, lambda *_: (3, 2), "is \\(3, 2\\)"),
        (neighbour, lambda *_: (-1, 2), "is \\(-1, 2\\)"),
        (neighbour, lambda *_: (0, 1, 2), "\\(first, end\\) is needed"),
        (neighbour, lambda *_: (0, 2.0), "\\(first, end\\) is needed"),
        (neighbour, lambda *_: 3, "is 3"),
        (neighbour, lambda *_: None, "is None"),
    ],
)
def test_what_cannot_be_right_is_said(partner, piece, message):
    with pytest.raises(ValueError, match=message):
        exchange(numpy.ones((4, 8)), 4, partner, piece)
