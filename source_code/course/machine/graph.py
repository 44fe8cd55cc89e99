"""A machine as nested parts with links between them.

Bandwidths are nominal, in GB/s (10^9 bytes per second) and PER DIRECTION; programs reach less.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

import pandas

from course.machine.error import TopologyError
from course.machine.parts import Cache, Core, Device, Hop, Network, Numa, NvLink, Socket, SocketLink
from course.machine.text import matrix_text, tree
from ddl.text import plural


@dataclass(frozen=True)
class Topology:
    """A machine and its links.

    Raises TopologyError for duplicate names and references to parts that don't exist.
    """

    name: str
    origin: str  # "measured here by …" or "recorded"
    sockets: tuple[Socket, ...] = ()
    numas: tuple[Numa, ...] = ()
    cores: tuple[Core, ...] = ()
    caches: tuple[Cache, ...] = ()
    devices: tuple[Device, ...] = ()
    nvlinks: tuple[NvLink, ...] = ()
    socket_links: tuple[SocketLink, ...] = ()
    network: Network | None = None
    title: str = ""
    usable: int | None = None  # processor threads this process may use; None: all
    reported: dict = field(default_factory=dict, hash=False)  # {(a, b): kind} for pairs that don't match the tree
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # missing information
    named: dict = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        named = {device.name: device for device in self.devices}
        object.__setattr__(self, "named", named)
        if len(named) < len(self.devices):
            twice = Counter(device.name for device in self.devices).most_common(1)[0][0]
            raise TopologyError(f"{self.name}: two devices have the same name, {twice}")
        sockets = {socket.number for socket in self.sockets}
        numas = {numa.number for numa in self.numas}
        refers = [
            *((f"device {d.name}", d.under, named) for d in self.devices if d.under),
            *((f"device {d.name}", d.numa, numas) for d in self.devices if d.numa is not None),
            *(("an NVLink", end, named) for link in self.nvlinks for end in (link.a, link.b)),
            *(("a link of sockets", end, sockets) for link in self.socket_links for end in (link.a, link.b)),
        ]
        for what, to, among in refers:
            if to not in among:
                raise TopologyError(
                    f"{self.name}: {what} refers to {to!r}, which does not exist; "
                    f"known: {', '.join(map(str, among)) or 'none'}"
                )
        for device in self.devices:
            self.above(device.name)  # raises on a cycle

    def __repr__(self):
        return f"<Topology {self.name}: {self.summary()}>"

    __str__ = tree
    matrix_text = matrix_text

    def summary(self):
        """Return a one-line summary of its parts."""
        parts = {
            "socket": self.sockets,
            "NUMA node": self.numas,
            "core": self.cores,
            "thread": [thread for numa in self.numas for thread in self.threads_of(numa.number)],
            "GPU": self.gpus,
            "NVSwitch": self.of("nvswitch"),
            "network card": self.nics,
        }
        return ", ".join(plural(len(found), name) for name, found in parts.items() if found)

    def of(self, kind):
        """Return the devices of a kind (see `Device.kind`), in order."""
        return tuple(device for device in self.devices if device.kind == kind)

    @property
    def limit(self):
        """The part of the processor threads that this process may use: "3 of 8 threads"; empty if all."""
        threads = sum(len(core.threads) for core in self.cores)
        return "" if self.usable is None or self.usable >= threads else f"{self.usable} of {threads} threads"

    @property
    def memories(self):
        """The NUMA nodes by the names of their memory: "numa0", "numa1", …."""
        return {f"numa{numa.number}": numa for numa in self.numas}

    @property
    def gpus(self):
        return self.of("gpu")

    @property
    def nics(self):
        return self.of("nic")

    def device(self, name):
        """Return a device by name. Raises TopologyError if there is none."""
        if name not in self.named:
            ends = [*self.named, *self.memories]
            raise TopologyError(f"{self.name} has no {name!r}; it has: {', '.join(ends) or 'no devices'}")
        return self.named[name]

    def above(self, name):
        """Return the device and everything above it, up to the root complex."""
        chain = [self.device(name)]
        while chain[-1].under:
            chain.append(self.named[chain[-1].under])
            if len(chain) > len(self.devices):
                raise TopologyError(f"{self.name}: {name} is under itself")
        return chain

    def numa_of(self, name):
        """Return the number of a device's NUMA node, or None if unknown."""
        return next((device.numa for device in self.above(name) if device.numa is not None), None)

    def threads_of(self, numa):
        """Return the processor threads of a NUMA node, sorted."""
        holders = [core for core in self.cores if core.numa == numa]
        holders += [node for node in self.numas if node.number == numa]
        return tuple(sorted(thread for holder in holders for thread in holder.threads))

    # ------------------------------------------------------------ paths and their names

    def path(self, a: str, b: str) -> tuple[Hop, ...]:
        """Return the path of data between two parts.

        `a` and `b` name devices, or the memory of a NUMA node: "numa0", "numa1", …. Direct NVLinks come first, then
        NVLinks through shared NVSwitches, then the PCIe tree. Nothing is routed through a third GPU, because no driver
        does that. The path is empty from a part to itself or if unknown.
        """
        if a == b:
            return ()
        if self._nvlinks(a, {b}):
            return (self._nvlink_hop(a, b, {b}),)
        switches = {device.name for device in self.of("nvswitch")}
        shared = set.intersection(*({link.other(end) for link in self._nvlinks(end, switches)} for end in (a, b)))
        if shared:
            middle = " ".join(name for name in self.named if name in shared)
            return self._nvlink_hop(a, middle, shared), self._nvlink_hop(b, middle, shared).reversed()
        return self._host_path(a, b)

    def _nvlinks(self, name, others):
        return [link for link in self.nvlinks if name in (link.a, link.b) and link.other(name) in others]

    def _nvlink_hop(self, name, end, others):
        links = self._nvlinks(name, others)
        return Hop(name, end, f"NV{sum(link.count for link in links)}", sum(link.gb_per_s for link in links))

    def _host_path(self, a, b):
        up, down = self._to_host(a), self._to_host(b)
        while up and down and up[-1].start == down[-1].start:
            up.pop(), down.pop()  # they meet below
        tops = [hops[-1].end if hops else name for hops, name in ((up, a), (down, b))]
        between = [] if tops[0] == tops[1] else [self._between(*tops)]
        return (*up, *between, *(hop.reversed() for hop in reversed(down)))

    def _to_host(self, name):
        """Return the hops to memory, as far up as is known."""
        if name in self.memories:
            return []
        above, numa = self.above(name), self.numa_of(name)
        ends = [device.name for device in above[1:]] + [f"numa{numa}"] * (numa is not None)
        return [
            Hop(device.name, end, "host bridge", math.inf)
            if device.kind == "root"
            else Hop(device.name, end, device.pcie, device.gb_per_s or math.nan)
            for device, end in zip(above, ends, strict=False)
        ]

    def _between(self, a, b):
        """Return the hop between the tops of two paths: NUMA nodes, if known."""
        memories = self.memories
        if not {a, b} <= memories.keys():
            return Hop(a, b, "not known", math.nan)
        sockets = {memories[a].socket, memories[b].socket}
        if None in sockets:
            return Hop(a, b, "between NUMA nodes", math.nan)
        if len(sockets) == 1:
            return Hop(a, b, "on chip", math.inf)
        for link in self.socket_links:
            if {link.a, link.b} == sockets:
                kind = f"{link.count}×{link.kind}" if link.count > 1 else link.kind
                return Hop(a, b, kind, link.count * link.gb_per_s if link.gb_per_s else math.nan)
        return Hop(a, b, "between sockets", math.nan)

    def bandwidth(self, a: str, b: str) -> float:
        """Return the bandwidth of the `path` between two parts in GB/s per direction.

        This is the bandwidth of the narrowest known link, an upper bound. NaN if unknown, infinite from a part to
        itself.
        """
        if a == b:
            return math.inf
        known = [hop.gb_per_s for hop in self.path(a, b) if math.isfinite(hop.gb_per_s)]
        return min(known, default=math.nan)

    def kind(self, a, b):
        """Return the kind of path between two devices, in the terms of ``nvidia-smi topo -m``.

        "X": itself. "NV#": that many NVLinks. "PIX": one PCIe switch. "PXB": several switches, no root complex. "PHB":
        the root complex. "NODE": two root complexes of one NUMA node. "SYS": two NUMA nodes. "?": unknown.
        """
        if a == b:
            return "X"
        if (a, b) in self.reported:
            return self.reported[a, b]
        hops = self.path(a, b)
        if hops and hops[0].kind.startswith("NV"):  # the ends may have different numbers of links to a switch
            return min((hops[0].kind, hops[-1].kind), key=lambda kind: int(kind[2:]))
        chains = [[device.name for device in self.above(name)] for name in (a, b)]
        common = next((name for name in chains[0] if name in chains[1]), None)
        if common is None:
            nodes = {self.numa_of(a), self.numa_of(b)}
            return "?" if None in nodes else "NODE" if len(nodes) == 1 else "SYS"
        if self.named[common].kind == "root":
            return "PHB"
        return "PIX" if all(chain.index(common) <= 1 for chain in chains) else "PXB"

    def matrix(self, nics: bool = False) -> pandas.DataFrame:
        """Return the `kind` of path between any two GPUs, and network cards if `nics`, by their names."""
        names = [device.name for device in self.gpus + (self.nics if nics else ())]
        return pandas.DataFrame(
            [[self.kind(a, b) for b in names] for a in names], index=names, columns=names, dtype=object
        )
