"""All-reduces in one process, driven by known-good and known-bad functions, and what a ring costs."""

import itertools

import numpy
import pytest

from course.shared import cost
from course.shared.cost import Link
from course.shared.ring import all_reduce, exchange, waits


def chunk_to_send(step, rank, ranks):
    return (rank - step) % ranks


def combine(mine, received, step, ranks):
    return mine + received if step < ranks - 1 else received


def data(ranks, count):
    return list(numpy.random.default_rng(count).normal(size=(ranks, count)))


def test_every_rank_gets_the_sum():
    for ranks, count in itertools.product(range(1, 9), (0, 1, 5, 24, 840)):
        arrays = data(ranks, count)
        before = [array.copy() for array in arrays]
        done = all_reduce(arrays, numpy.array_split, chunk_to_send, combine)
        for array in done.arrays:
            numpy.testing.assert_allclose(array, numpy.sum(arrays, axis=0), atol=1e-12)
        assert sum(done.sent) == 2 * (ranks - 1) * count
        assert count % ranks or set(done.sent) == {2 * (ranks - 1) * count // ranks}
        assert all(map(numpy.array_equal, arrays, before))

    # Functions that write into what they are given change nothing else.
    def in_place(mine, received, step, ranks):
        if step < ranks - 1:
            received += mine
        return received

    arrays = data(4, 10)
    done = all_reduce(arrays, numpy.array_split, chunk_to_send, in_place)
    numpy.testing.assert_allclose(done.arrays[2], numpy.sum(arrays, axis=0))


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"split": lambda values, ranks: numpy.array_split(values, ranks)[::-1]}, "don't concatenate"),
        ({"split": lambda values, ranks: [values[:2], values[2:4], values[4:5]]}, "to the 6 values"),
        ({"chunk_to_send": lambda *_: -1}, r"chunk_to_send\(step=0, rank=0, ranks=3\) is"),
        ({"combine": lambda mine, received, *_: received[:1]}, r"combine\(.*, step=0, ranks=3\) turned the shape"),
    ],
)
def test_a_wrong_function_is_named(wrong, message):
    right = {"split": numpy.array_split, "chunk_to_send": chunk_to_send, "combine": combine}
    with pytest.raises(ValueError, match=message):
        all_reduce(data(3, 6), **{**right, **wrong})


def test_waits_are_bounded_by_latency_per_message_and_operation():
    link = Link(1e-3, 1e-9)
    assert waits([8e6], 2, link, measured_on=2) == pytest.approx((0.010, 0.010))
    assert waits([8e6], 8, link, measured_on=2) == pytest.approx((0.002 + 0.014, 0.014 + 0.014))
    # Two messages are paid for on two ranks; with three measured, one of four.
    assert waits([0], 2, link, measured_on=3) == pytest.approx((0.002, 0.004))
    assert waits([8e6, 0, 0], 8, link, measured_on=2) == pytest.approx((0.006 + 0.014, 0.042 + 0.014))
    assert waits([8e6], 1, link, measured_on=2) == (0, 0)


def piece_of(number, ranks, count):
    return count * number // ranks, count * (number + 1) // ranks


def by_ring(data):
    return exchange(
        data,
        2 * (len(data) - 1),
        lambda step, rank, ranks: (rank + 1) % ranks,
        lambda step, rank, ranks, count: piece_of((rank - step) % ranks, ranks, count),
    )


def halves(step, rank, ranks, count):
    """Halving and doubling that begins with neighbors: the bits of a rank from the lowest on."""
    rounds = ranks.bit_length() - 1
    level = min(step, 2 * rounds - 1 - step)
    first, end = 0, count
    for bit in range(level + 1):
        own = rank >> bit & 1
        middle = (first + end) // 2
        upper = own ^ (bit == level and step < rounds)
        first, end = (middle, end) if upper else (first, middle)
    return first, end


def neighbor(step, rank, ranks):
    rounds = ranks.bit_length() - 1
    return rank ^ 1 << min(step, 2 * rounds - 1 - step)


def test_both_algorithms_add_up_and_send_what_the_model_counts():
    for ranks, count in itertools.product((1, 2, 4, 8, 16), (0, 1, 5, 16, 37)):
        data = numpy.random.default_rng(count).normal(size=(ranks, count))
        before, rounds = data.copy(), ranks.bit_length() - 1
        for done, name in (
            (by_ring(data), "ring"),
            (exchange(data, 2 * rounds, neighbor, halves), "halving and doubling"),
        ):
            assert numpy.allclose(done.arrays, data.sum(axis=0)) and numpy.array_equal(data, before)
            messages, share = cost.terms(name, ranks)
            assert sum(done.sent) == pytest.approx(share * count * ranks)
            assert messages == (2 * (ranks - 1) if name == "ring" else 2 * rounds)


@pytest.mark.parametrize(
    ("partner", "piece", "message"),
    [
        (lambda *_: 4, halves, "partner.*another rank.*got 4"),
        (lambda step, rank, ranks: rank, halves, "another rank.*got 0"),
        (lambda step, rank, ranks: 3 if rank < 3 else 0, halves, "two ranks send to rank 3"),
        (neighbor, lambda *_: (0, 9), "piece.*0 ≤ first ≤ end ≤ 8"),
        (neighbor, lambda *_: (3, 2), "is \\(3, 2\\)"),
    ],
)
def test_impossible_messages_raise(partner, piece, message):
    with pytest.raises(ValueError, match=message):
        exchange(numpy.ones((4, 8)), 4, partner, piece)
