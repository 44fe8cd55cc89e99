"""Placements of two ranks on a machine, from near to far."""

import os
from collections.abc import Collection

from course.topology.graph import Topology


def placements(machine: Topology, allowed: Collection[int] | None = None) -> dict[str, tuple[int, int]]:
    """Return the available pairs of processor threads for two ranks, from near to far.

    "one core": both share a thread. "a core's two threads". "two cores": of one socket. "two sockets". `allowed` are
    the usable threads, by default those of this process.
    """
    allowed = os.sched_getaffinity(0) if allowed is None else set(allowed)
    usable = [(core.socket, tuple(sorted(set(core.threads) & allowed))) for core in machine.cores]
    usable = [(socket, threads) for socket, threads in usable if threads]
    if not usable:
        return {}
    home, first = usable[0]
    found = {"one core": (first[0], first[0])}
    doubled = [threads for _, threads in usable if len(threads) > 1]
    near = [threads for socket, threads in usable[1:] if socket == home]
    far = [threads for socket, threads in usable[1:] if socket != home]
    if doubled:
        found["a core's two threads"] = doubled[0][:2]
    if near:
        found["two cores"] = (first[0], near[0][0])
    if far:
        found["two sockets"] = (first[0], far[0][0])
    return found
