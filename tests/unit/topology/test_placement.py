"""Pairs of processors for two ranks, from near to far."""

import os

from course import topology
from course.topology.graph import Core, Numa, Socket, Topology


def machine(sockets=2, cores=2, threads=2):
    """Threads numbered as Linux does: the first of each core, then the second of each."""
    total = sockets * cores
    return Topology(
        "server",
        "made up",
        sockets=tuple(Socket(number) for number in range(sockets)),
        numas=tuple(Numa(number, number) for number in range(sockets)),
        cores=tuple(
            Core(core, core // cores, core // cores, tuple(core + total * thread for thread in range(threads)))
            for core in range(total)
        ),
    )


def test_pairs_from_near_to_far_of_what_there_is_and_may_be_used():
    assert topology.placements(machine(), range(8)) == {
        "one core": (0, 0),
        "a core's two threads": (0, 4),
        "two cores": (0, 1),
        "two sockets": (0, 2),
    }
    assert topology.placements(machine(), [1, 5, 3]) == {
        "one core": (1, 1),
        "a core's two threads": (1, 5),
        "two sockets": (1, 3),
    }
    assert topology.placements(machine(1, 2, 1), range(8)) == {"one core": (0, 0), "two cores": (0, 1)}
    assert topology.placements(machine(), []) == {} == topology.placements(Topology("bare", "made up"))
    found = topology.placements(topology.here())
    assert {thread for pair in found.values() for thread in pair} <= os.sched_getaffinity(0)
