"""Data paths between the parts of a machine."""

import math
from dataclasses import replace

from course.topology.error import TopologyError
from course.topology.parts import Hop


def find(topology, a: str, b: str) -> tuple[Hop, ...]:
    """Return the path of data between two parts.

    `a` and `b` name devices, or the memory of a NUMA node: "numa0", "numa1", …. Direct NVLinks come first, then NVLinks
    through shared NVSwitches, then the PCIe tree. Nothing is routed through a third GPU, because no driver does that.
    The path is empty from a part to itself or if unknown.
    """
    if a == b:
        return ()
    between = _nvlinks(topology, a, {b})
    if between:
        return (_nvlink_hop(a, b, between),)
    switches = {device.name for device in topology.of("nvswitch")}
    shared = set.intersection(*({link.other(end) for link in _nvlinks(topology, end, switches)} for end in (a, b)))
    if shared:
        middle = " ".join(device.name for device in topology.devices if device.name in shared)
        hops = ((a, middle, _nvlinks(topology, a, shared)), (middle, b, _nvlinks(topology, b, shared)))
        return tuple(_nvlink_hop(*hop) for hop in hops)
    return _host_path(topology, a, b)


def _nvlinks(topology, name, others):
    return [link for link in topology.nvlinks if name in (link.a, link.b) and link.other(name) in others]


def _nvlink_hop(a, b, links):
    return Hop(a, b, f"NV{sum(link.count for link in links)}", sum(link.gb_per_s for link in links))


def _host_path(topology, a, b):
    up, down = _to_host(topology, a), _to_host(topology, b)
    while up and down and up[-1].start == down[-1].start:
        up.pop(), down.pop()  # they meet below
    tops = [hops[-1].end if hops else name for hops, name in ((up, a), (down, b))]
    between = [] if tops[0] == tops[1] else _between(topology, *tops)
    return (*up, *between, *(replace(hop, start=hop.end, end=hop.start) for hop in reversed(down)))


def _to_host(topology, name):
    """Return the hops to memory, as far up as is known."""
    if name.startswith("numa") and name not in topology.named:
        _numa(topology, name)
        return []
    above, numa = topology.above(name), topology.numa_of(name)
    ends = [device.name for device in above[1:]] + [f"numa{numa}"] * (numa is not None)
    return [
        Hop(device.name, end, "host bridge", math.inf)
        if device.kind == "root"
        else Hop(device.name, end, device.pcie, device.gb_per_s or math.nan)
        for device, end in zip(above, ends, strict=False)
    ]


def _numa(topology, name):
    for numa in topology.numas:
        if name == f"numa{numa.number}":
            return numa
    raise TopologyError(
        f"{topology.name} has no {name!r}; it has NUMA nodes "
        f"{', '.join(f'numa{n.number}' for n in topology.numas) or '(none known)'}"
    )


def _between(topology, a, b):
    """Return the hops between the tops of two paths: NUMA nodes, if known."""
    if not (a.startswith("numa") and b.startswith("numa")):
        return [Hop(a, b, "not known", math.nan)]
    sockets = [_numa(topology, name).socket for name in (a, b)]
    if None in sockets:
        return [Hop(a, b, "between NUMA nodes", math.nan)]
    if sockets[0] == sockets[1]:
        return [Hop(a, b, "on chip", math.inf)]
    for link in topology.socket_links:
        if {link.a, link.b} == set(sockets):
            kind = f"{link.count}×{link.kind}" if link.count > 1 else link.kind
            return [Hop(a, b, kind, link.count * link.gb_per_s if link.gb_per_s else math.nan)]
    return [Hop(a, b, "between sockets", math.nan)]
