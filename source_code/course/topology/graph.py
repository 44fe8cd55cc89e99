"""A machine as nested parts with links between them.

Bandwidths are nominal, in GB/s (10^9 bytes per second) and PER DIRECTION; programs reach less.
"""

import math
from collections import Counter
from dataclasses import dataclass, field

import pandas

from course.topology.error import TopologyError
from course.topology.parts import Cache, Core, Device, Network, Numa, NvLink, Socket, SocketLink
from course.topology.paths import find
from course.topology.text import matrix_text, tree
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
            *((f"NUMA node {numa.number}", numa.socket, sockets) for numa in self.numas if numa.socket is not None),
            *((f"core {core.number}", core.numa, numas) for core in self.cores),
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
    path = find

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
    def gpus(self):
        return self.of("gpu")

    @property
    def nics(self):
        return self.of("nic")

    def device(self, name):
        """Return a device by name. Raises TopologyError if there is none."""
        try:
            return self.named[name]
        except KeyError:
            raise TopologyError(
                f"{self.name} has no {name!r}; it has: {', '.join(self.named) or 'no devices'}"
            ) from None

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
