"""Pairs of processors for two ranks, from near to far."""

import os

from course import topology


def test_pairs_from_near_to_far_of_what_there_is_and_may_be_used():
    dgx = topology.load("dgx-1")  # two sockets of 20 cores; thread 40 is the second one of core 0
    names = "one core", "a core's two threads", "two cores", "two sockets"
    for allowed, pairs in (
        (range(80), [(0, 0), (0, 40), (0, 1), (0, 20)]),
        ([1, 41, 25], [(1, 1), (1, 41), None, (1, 25)]),
        ([3, 5], [(3, 3), None, (3, 5), None]),
        ([], [None] * 4),
    ):
        expected = {name: pair for name, pair in zip(names, pairs, strict=True) if pair}
        assert topology.placements(dgx, allowed) == expected
    assert topology.placements(topology.Topology("bare", "made up")) == {}
    found = topology.placements(topology.here())
    assert {thread for pair in found.values() for thread in pair} <= os.sched_getaffinity(0)
