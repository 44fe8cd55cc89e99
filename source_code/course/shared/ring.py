"""All-reduces in one process, driven by functions that readers write in the lessons.

In a ring, each of N ranks sends only to the next one, and the last to the first. The data are split into N chunks. In
the first N - 1 steps (reduce-scatter), a rank adds what it receives to its own chunk; in the next N - 1 (all-gather),
it replaces its chunk. This module imports only NumPy, so the lessons' tests can use it anywhere.
"""

import numbers
from dataclasses import dataclass

import numpy

from course.shared import cost
from ddl.errors import InputError


@dataclass(frozen=True)
class Reduced:
    """The result of an all-reduce."""

    arrays: tuple  # of each rank, after all steps
    sent: tuple  # number of elements sent by each rank


def all_reduce(arrays, split, chunk_to_send, combine) -> Reduced:
    """Drive a ring all-reduce of each rank's 1-D array, all of one size, with the reader's three functions.

    ``split(values, ranks)`` returns `ranks` chunks that concatenate to the values. ``chunk_to_send(step, rank, ranks)``
    returns the number of the chunk to send to the next rank, for steps 0 to ``2 * ranks - 3``. ``combine(mine,
    received, step, ranks)`` returns a rank's new chunk after it received the previous rank's.

    Raises InputError if a function's result is impossible: too few chunks, an unknown chunk or the wrong number of
    elements.
    """
    ranks = len(arrays)
    have = [_chunks(split(_copy(array), ranks), array, ranks) for array in arrays]
    sent = [0] * ranks
    for step in range(2 * (ranks - 1)):
        # All ranks send at the same time, so they send their data from before the step.
        messages = []
        for rank in range(ranks):
            number = _number(chunk_to_send(step, rank, ranks), step, rank, ranks)
            messages.append((number, _copy(have[rank][number])))
            sent[rank] += len(messages[-1][1])
        for rank in range(ranks):
            number, received = messages[rank - 1]
            new = _copy(combine(_copy(have[rank][number]), received, step, ranks))
            if new.shape != received.shape:
                raise InputError(
                    f"combine(mine, received, step={step}, ranks={ranks}) turned the shape {received.shape} into "
                    f"{new.shape}, but it must not change"
                )
            have[rank][number] = new
    return Reduced(tuple(numpy.concatenate(chunks) for chunks in have), tuple(sent))


def _copy(values):
    return numpy.array(values, dtype=float)


def _chunks(chunks, values, ranks):
    chunks = [_copy(chunk) for chunk in chunks]
    call = f"split(values, ranks={ranks})"
    if len(chunks) != ranks:
        raise InputError(f"{call} made {len(chunks)} chunks, not {ranks}")
    if any(chunk.ndim != 1 for chunk in chunks):
        raise InputError(f"{call} made chunks that are not 1-D arrays")
    if not numpy.array_equal(numpy.concatenate(chunks), _copy(values)):
        raise InputError(f"{call}: its chunks don't concatenate to the {len(values)} values")
    return chunks


def _number(number, step, rank, ranks):
    if not 0 <= number < ranks or int(number) != number:
        raise InputError(
            f"chunk_to_send(step={step}, rank={rank}, ranks={ranks}) is {number!r}: "
            f"chunks are numbered from 0 to {ranks - 1}"
        )
    return int(number)


def contributions(ranks: int):
    """Count the ranks whose data each chunk contains, initially and after each step: int, ``[2 * ranks - 1, rank,
    chunk]``.
    """
    count = numpy.ones((ranks, ranks), int)
    states = [count]
    diagonal = numpy.eye(ranks, dtype=int)
    for step in range(2 * (ranks - 1)):
        arriving = numpy.roll(diagonal, (1, -step), axis=(0, 1)).astype(bool)
        previous = numpy.roll(count, 1, axis=0)
        count = numpy.where(arriving, previous + (step < ranks - 1), count)
        states.append(count)
    return numpy.array(states)


# ---------------------------------------------------------------- any algorithm


def exchange(arrays, steps, partner, piece) -> Reduced:
    """Drive any all-reduce of each rank's 1-D array, all of one size, with the reader's two functions.

    In the first half of the steps, a rank adds what it receives to its own numbers at the same positions; in the second
    half, it replaces them.

    ``partner(step, rank, ranks)`` returns the rank that `rank` sends to, for steps 0 to ``steps - 1``; in each step,
    every rank receives one message. ``piece(step, rank, ranks, count)`` returns the range of its `count` numbers that
    `rank` sends: (first, end), as in ``values[first:end]``.

    Raises InputError if a function's result is impossible: an unknown rank or piece, or two messages for one rank.
    """
    have = [numpy.array(array, dtype=float) for array in arrays]
    ranks, count = len(have), len(have[0])
    sent = [0] * ranks
    for step in range(steps):
        # All ranks send at the same time, so they send their data from before the step.
        messages = {}
        for rank in range(ranks):
            to = _rank(partner(step, rank, ranks), step, rank, ranks)
            if to in messages:
                raise InputError(f"partner(step={step}, …, ranks={ranks}): two ranks send to rank {to}")
            first, end = _piece(piece(step, rank, ranks, count), step, rank, ranks, count)
            messages[to] = first, end, have[rank][first:end].copy()
            sent[rank] += end - first
        for rank, (first, end, values) in messages.items():
            have[rank][first:end] = values + (have[rank][first:end] if step < steps / 2 else 0)
    return Reduced(tuple(have), tuple(sent))


def _whole(value):
    return isinstance(value, numbers.Integral | numpy.integer) and not isinstance(value, bool | numpy.bool_)


def _rank(to, step, rank, ranks):
    if not _whole(to) or not 0 <= to < ranks or to == rank:
        raise InputError(
            f"partner(step={step}, rank={rank}, ranks={ranks}) must be another rank from 0 to {ranks - 1}, got {to!r}"
        )
    return int(to)


def _piece(piece, step, rank, ranks, count):
    pair = tuple(piece) if isinstance(piece, tuple | list | numpy.ndarray) else ()
    if len(pair) != 2 or not all(map(_whole, pair)) or not 0 <= pair[0] <= pair[1] <= count:
        raise InputError(
            f"piece(step={step}, rank={rank}, ranks={ranks}, count={count}) is {piece!r}: (first, end) is needed, "
            f"with 0 ≤ first ≤ end ≤ {count}"
        )
    return int(pair[0]), int(pair[1])


# ---------------------------------------------------------------- cost


def waits(sizes_bytes, ranks: int, link: cost.Link, measured_on: int):
    """Return lower and upper bounds, in seconds, for consecutive all-reduces on a ring of `ranks`.

    `link` is a ring's fit to times on `measured_on` ranks. The bounds assume latency once per all-reduce or once per
    message, which the fit cannot distinguish. `sizes_bytes` are the sizes of a rank's data.
    """
    per_message = sum(cost.ring(size, ranks, link.alpha_s, link.beta_s_per_byte) for size in sizes_bytes)
    if ranks == 1:
        return per_message, per_message
    once = cost.ring(0, measured_on, link.alpha_s, 0.0)
    per_all_reduce = sum(once + cost.ring(size, ranks, 0.0, link.beta_s_per_byte) for size in sizes_bytes)
    return min(per_message, per_all_reduce), max(per_message, per_all_reduce)
