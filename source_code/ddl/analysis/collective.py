"""An all-reduce in one process, of any algorithm in which each rank sends one message a step: the ring's driver, in
general.

Who sends which numbers to whom comes from two functions that lesson 2 has its readers write. In the first half of the
steps a rank adds what arrives to its own numbers in the same places, in the second half it keeps what arrives. That is
a ring (Patarasuk and Yuan 2009) as well as halving and doubling (Thakur, Rabenseifner and Gropp 2005, "Optimization of
collective communication operations in MPICH", section on all-reduce).

This module imports NumPy only, so that tests of the lesson can use it wherever they run.
"""

import numbers

import numpy

from ddl.analysis.ring import Reduced
from ddl.errors import InputError


def exchange(arrays, steps, partner, piece) -> Reduced:
    """Drive an all-reduce of each rank's 1-D array, all of one size, by the reader's two functions.

    ``partner(step, rank, ranks)`` returns the rank that `rank` sends to, for steps 0 to ``steps - 1``; in a step each
    rank is sent to by one. ``piece(step, rank, ranks, count)`` returns which of its `count` numbers `rank` sends:
    (first, end), as for ``values[first:end]``.

    Raises
    ------
    ValueError
        If a function returns what cannot be right: a rank or a piece that is not there, two messages for one rank.
    """
    have = [numpy.array(array, dtype=float) for array in arrays]
    ranks, count = len(have), len(have[0])
    sent = [0] * ranks
    for step in range(steps):
        # All ranks send at the same time: what they send is what they had before the step.
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
            f"partner(step={step}, rank={rank}, ranks={ranks}) is {to!r}: another rank is needed, from 0 to {ranks - 1}"
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
