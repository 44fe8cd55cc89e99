"""Pairs of processors for two ranks, from near to far."""

import os

from ddl import topology
from ddl.topology.graph import Core, Numa, Socket, Topology


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


def test_a_server_has_all_pairs():
    assert topology.placements(machine(), range(8)) == {
        "one core": (0, 0),
        "a core's two threads": (0, 4),
        "two cores": (0, 1),
        "two sockets": (0, 2),
    }


def test_what_is_not_there_or_not_allowed_is_left_out():
    assert topology.placements(machine(), [1, 5, 3]) == {
        "one core": (1, 1),
        "a core's two threads": (1, 5),
        "two sockets": (1, 3),
    }
    assert topology.placements(machine(1, 2, 1), range(8)) == {"one core": (0, 0), "two cores": (0, 1)}
    assert topology.placements(machine(1, 1, 1), [0]) == {"one core": (0, 0)}
    assert topology.placements(machine(), []) == {} == topology.placements(Topology("bare", "made up"))


def test_here_only_what_this_process_may_use():
    found = topology.placements(topology.here())
    assert {thread for pair in found.values() for thread in pair} <= os.sched_getaffinity(0)
