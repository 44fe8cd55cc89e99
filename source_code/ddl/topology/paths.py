"""The paths that data take between the parts of a machine."""

import itertools
import math
from collections import deque

from ddl.topology.error import TopologyError
from ddl.topology.parts import Hop


def find(topology, a: str, b: str) -> tuple[Hop, ...]:
    """Return the path between two parts; `ddl.topology.graph.Topology.path` says which."""
    if a == b:
        return ()
    between = _nvlinks(topology, a, {b})
    if between:
        return (_nvlink_hop(a, b, between),)
    switches = {device.name for device in topology.of("nvswitch")}
    ends = [{_other(link, end) for link in _nvlinks(topology, end, switches)} for end in (a, b)]
    shared = ends[0] & ends[1]
    if shared:
        middle = " ".join(device.name for device in topology.devices if device.name in shared)
        hops = ((a, middle, _nvlinks(topology, a, shared)), (middle, b, _nvlinks(topology, b, shared)))
        return tuple(_nvlink_hop(*hop) for hop in hops)
    return _host_path(topology, a, b)


def _nvlinks(topology, name, others):
    return [link for link in topology.nvlinks if name in (link.a, link.b) and _other(link, name) in others]


def _host_path(topology, a, b):
    up, down = _to_host(topology, a), _to_host(topology, b)
    if not up or not down:
        return ()
    while len(up) > 1 and len(down) > 1 and up[-2][0] == down[-2][0]:
        up.pop(), down.pop()  # they meet further down
    hops = [Hop(low, high, kind, rate) for (low, kind, rate), (high, *_) in itertools.pairwise(up)]
    if up[-1][0] != down[-1][0]:
        hops += _between(topology, up[-1][0], down[-1][0])
    descent = [Hop(high, low, kind, rate) for (low, kind, rate), (high, *_) in itertools.pairwise(down)]
    return (*hops, *reversed(descent))


def _to_host(topology, name):
    """Stops on the path to memory: (name, kind and GB/s of the link that leads on)."""
    if name.startswith("numa") and name not in topology.named:
        _numa(topology, name)
        return [(name, "", math.inf)]
    stops = []
    for device in topology.above(name):
        if device.kind == "root":
            stops.append((device.name, "host bridge", math.inf))
        else:
            stops.append((device.name, device.pcie, device.gb_per_s or math.nan))
    numa = topology.numa_of(name)
    if numa is not None:
        stops.append((f"numa{numa}", "", math.inf))
    return stops


def _numa(topology, name):
    for numa in topology.numas:
        if name == f"numa{numa.number}":
            return numa
    raise TopologyError(
        f"{topology.name} has no {name!r}; it has NUMA nodes "
        f"{', '.join(f'numa{n.number}' for n in topology.numas) or '(none known)'}"
    )


def _between(topology, a, b):
    """Hops between the tops of two paths, which are NUMA nodes where those are known."""
    if not (a.startswith("numa") and b.startswith("numa")):
        return [Hop(a, b, "not known", math.nan)]
    sockets = [_numa(topology, name).socket for name in (a, b)]
    if None in sockets:
        return [Hop(a, b, "between NUMA nodes", math.nan)]
    if sockets[0] == sockets[1]:
        return [Hop(a, b, "on chip", math.inf)]
    route = _socket_links(topology, *sockets)
    if not route:
        return [Hop(a, b, "between sockets", math.nan)]
    stops = [a, *(f"socket{number}" for number, _ in route[:-1]), b]
    return [
        Hop(
            start,
            end,
            f"{link.count}×{link.kind}" if link.count > 1 else link.kind,
            link.count * link.gb_per_s if link.gb_per_s else math.nan,
        )
        for (start, end), (_, link) in zip(itertools.pairwise(stops), route)
    ]


def _socket_links(topology, start, goal):
    """The shortest route between two sockets: [(socket reached, link), …]."""
    routes = deque([(start, [])])
    seen = {start}
    while routes:
        socket, route = routes.popleft()
        if socket == goal:
            return route
        for link in topology.socket_links:
            if socket in (link.a, link.b) and (neighbour := _other(link, socket)) not in seen:
                seen.add(neighbour)
                routes.append((neighbour, [*route, (neighbour, link)]))
    return []


def _other(link, end):
    return link.b if link.a == end else link.a


def _nvlink_hop(a, b, links):
    return Hop(a, b, f"NV{sum(link.count for link in links)}", sum(link.gb_per_s for link in links))
