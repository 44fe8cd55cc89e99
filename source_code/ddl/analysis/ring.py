"""A ring all-reduce in one process: who sends what, when, and how much.

Each of N ranks sends to the next one only, and the last to the first. The data are cut into N chunks. In the first N -
1 steps (reduce-scatter) a rank adds what it receives to its own chunk; in N - 1 more (all-gather) it keeps what it
receives. What is sent, and how it is combined, comes from three functions that the lesson has its readers write.
Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations".

This module imports NumPy only, so that tests of the lesson can use it wherever they run.
"""

from dataclasses import dataclass

import numpy

from ddl.analysis import cost
from ddl.errors import InputError


@dataclass(frozen=True)
class Reduced:
    """The result of an all-reduce."""

    arrays: tuple  # each rank's, when all steps are over
    sent: tuple  # how many elements each rank has sent


def all_reduce(arrays, split, chunk_to_send, combine) -> Reduced:
    """Drive a ring all-reduce of each rank's 1-D array, all of one size, with the reader's three functions.

    ``split(values, ranks)`` returns `ranks` chunks, which together are the values in their order. ``chunk_to_send(step,
    rank, ranks)`` returns the number of the chunk to send to the next rank, for steps 0 to ``2 * ranks - 3``.
    ``combine(mine, received, step, ranks)`` returns a rank's new chunk after it received the previous rank's.

    Raises
    ------
    ValueError
        If a function returns what cannot be right: too few chunks, a chunk that is not there, another number of
        elements.
    """
    ranks = len(arrays)
    have = [_chunks(split(_copy(array), ranks), array, ranks) for array in arrays]
    sent = [0] * ranks
    for step in range(2 * (ranks - 1)):
        # All ranks send at the same time: what they send is what they had before the step.
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
                    f"combine(mine, received, step={step}, ranks={ranks}) made "
                    f"{new.shape} of {received.shape}: the shape must stay"
                )
            have[rank][number] = new
    return Reduced(tuple(numpy.concatenate(chunks) for chunks in have), tuple(sent))


def _copy(values):
    return numpy.array(values, dtype=float)


def _chunks(chunks, values, ranks):
    chunks = [_copy(chunk) for chunk in chunks]
    if len(chunks) != ranks:
        raise InputError(f"split(values, ranks={ranks}) made {len(chunks)} chunks, not {ranks}")
    if any(chunk.ndim != 1 for chunk in chunks):
        raise InputError(f"split(values, ranks={ranks}) made chunks that are not 1-D arrays")
    if not numpy.array_equal(numpy.concatenate(chunks), _copy(values)):
        raise InputError(
            f"split(values, ranks={ranks}): its chunks, one after another, are not "
            f"the {len(values)} values in their order"
        )
    return chunks


def _number(number, step, rank, ranks):
    if not 0 <= number < ranks or int(number) != number:
        raise InputError(
            f"chunk_to_send(step={step}, rank={rank}, ranks={ranks}) is {number!r}: "
            f"chunks are numbered from 0 to {ranks - 1}"
        )
    return int(number)


def contributions(ranks: int):
    """Count how many ranks' data each chunk holds, initially and after each step: int, ``[2 * ranks - 1, rank,
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


# ---------------------------------------------------------------- what it costs


def waits(sizes_bytes, ranks: int, link: cost.Link, measured_on: int):
    """Return the least and the most seconds of some all-reduces, one after another, on a ring of `ranks`.

    `link` is a ring's fit to times on `measured_on` ranks. These cannot tell what is paid ``2 (ranks - 1)`` times, for
    each message, from what is paid once for an all-reduce, as Horovod's waiting for its next cycle is: the two bounds.
    `sizes_bytes` are those of a rank's data.
    """
    per_message = sum(cost.ring(size, ranks, link.alpha_s, link.beta_s_per_byte) for size in sizes_bytes)
    if ranks == 1:
        return per_message, per_message
    once = cost.ring(0, measured_on, link.alpha_s, 0.0)
    per_all_reduce = sum(once + cost.ring(size, ranks, 0.0, link.beta_s_per_byte) for size in sizes_bytes)
    return min(per_message, per_all_reduce), max(per_message, per_all_reduce)
