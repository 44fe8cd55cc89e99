"""A machine as nested parts with links between them.

Bandwidths are nominal, in GB/s (10^9 bytes a second) and PER DIRECTION; no program reaches all of it.
"""

import itertools
import math
from collections import Counter, deque
from dataclasses import dataclass, field

import pandas

from ddl.topology.error import TopologyError
from ddl.topology.link import nvlink_gb_per_s, pcie_gb_per_s
from ddl.topology.text import matrix_text, tree

DEVICE_KINDS = ("root", "switch", "gpu", "nic", "disk", "memory", "nvswitch", "other")


@dataclass(frozen=True)
class Socket:
    """A processor chip."""

    number: int  # the operating system's
    model: str = ""


@dataclass(frozen=True)
class Numa:
    """A NUMA node: memory, and the cores near it."""

    number: int
    socket: int | None  # None: not known
    memory_bytes: int | None = None
    memory_gb_per_s: float | None = None  # reads and writes together, which share one bus
    threads: tuple = ()  # processor threads whose cores are not known


@dataclass(frozen=True)
class Core:
    """A core and its threads."""

    number: int  # sorted by socket, then by lowest thread
    socket: int
    numa: int
    threads: tuple  # as the operating system numbers processors


@dataclass(frozen=True, order=True)
class Cache:
    """A cache."""

    level: int
    kind: str  # "data", "instruction" or "unified"
    size_bytes: int
    cores: tuple  # numbers of the cores that share it


@dataclass(frozen=True)
class Device:
    """A part of the PCIe tree: a root complex, switch, GPU, network card and so on."""

    name: str
    kind: str  # one of DEVICE_KINDS; "memory" is plugged in, like CXL's
    under: str = ""  # the switch or root complex it is plugged into; empty for a root complex, or not known
    numa: int | None = None  # None: that of `under`, or not known
    model: str = ""
    address: str = ""
    generation: int | None = None  # PCIe generation and width of its upstream link
    width: int | None = None
    gb_per_s: float | None = None  # of that link; computed from generation and width if not given
    gbit_per_s: float | None = None  # of a network card's port, in 10^9 bits a second
    network: str = ""  # "Ethernet" or "InfiniBand"
    memory_bytes: int | None = None
    memory_gb_per_s: float | None = None  # of a GPU's own memory

    def __post_init__(self):
        if self.kind not in DEVICE_KINDS:
            raise TopologyError(f"{self.name}: kind {self.kind!r} is not one of {', '.join(DEVICE_KINDS)}")
        if self.gb_per_s is None and self.generation and self.width:
            object.__setattr__(self, "gb_per_s", pcie_gb_per_s(self.generation, self.width))

    @property
    def pcie(self):
        """Its upstream link: "PCIe 3 x16", or "PCIe" where no more is known."""
        known = self.generation and self.width
        return f"PCIe {self.generation} x{self.width}" if known else "PCIe"


@dataclass(frozen=True)
class NvLink:
    """The NVLinks between two GPUs, or between a GPU and an NVSwitch."""

    a: str
    b: str
    count: int
    generation: int | None = None
    each_gb_per_s: float | None = None  # of one link, per direction; used if the generation is not known

    def __post_init__(self):
        if self.count < 1 or self.a == self.b:
            raise TopologyError(
                f"NVLinks between {self.a} and {self.b}, {self.count} of them: "
                "two different ends and at least one link are needed"
            )

    @property
    def gb_per_s(self):
        """Per direction, all links together; NaN where neither generation nor rate is known."""
        if self.generation:
            return self.count * nvlink_gb_per_s(self.generation)
        return self.count * (self.each_gb_per_s or math.nan)


@dataclass(frozen=True)
class SocketLink:
    """A link between two sockets."""

    a: int
    b: int
    kind: str  # "QPI", "UPI", "xGMI" or the like
    count: int = 1
    gb_per_s: float | None = None  # of each, per direction


@dataclass(frozen=True)
class Network:
    """How a machine is joined to the others of its cluster."""

    kind: str  # "InfiniBand EDR", "Ethernet" or the like
    nics: int  # ports used for training, without those for storage and management
    gbit_per_s: float  # of each, in 10^9 bits a second, per direction

    def __post_init__(self):
        if self.nics < 1 or not self.gbit_per_s > 0:
            raise TopologyError(
                f"a network of {self.nics} cards at {self.gbit_per_s} Gbit/s: "
                "at least one card and a rate above 0 are needed"
            )

    @property
    def gb_per_s(self):
        """Of all cards of a machine, per direction."""
        return self.nics * self.gbit_per_s / 8


@dataclass(frozen=True)
class Hop:
    """One link of a path between two parts."""

    start: str
    end: str
    kind: str  # "NV2", "PCIe 3 x16", "host bridge", "on chip", "QPI" or the like
    gb_per_s: float  # per direction; infinite where it limits nothing, NaN where not known


@dataclass(frozen=True)
class Topology:
    """A machine, and the links in it.

    Raises
    ------
    TopologyError
        If names are not unique, or a part refers to one that does not exist.
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
    told: dict = field(default_factory=dict, hash=False)  # {(a, b): kind}, where `kind` reports other than the tree
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be found out
    _named: dict = field(init=False, repr=False, compare=False)

    def __post_init__(self):
        named = {device.name: device for device in self.devices}
        object.__setattr__(self, "_named", named)
        if len(named) < len(self.devices):
            twice = Counter(device.name for device in self.devices).most_common(1)[0][0]
            raise TopologyError(f"{self.name}: two devices have one name, {twice}")
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
                    f"{self.name}: {what} refers to {to!r}, which is not there; "
                    f"there are: {', '.join(map(str, among)) or 'none'}"
                )
        for device in self.devices:
            self.above(device.name)  # raises on a cycle

    def __repr__(self):
        return f"<Topology {self.name}: {self.summary()}>"

    def __str__(self):

        return tree(self)

    def summary(self):
        """Return a one-line count of its parts."""
        threads = sum(len(self.threads_of(numa.number)) for numa in self.numas)
        counts = [
            (len(self.sockets), "socket"),
            (len(self.numas), "NUMA node"),
            (len(self.cores), "core"),
            (threads, "thread"),
            (len(self.gpus), "GPU"),
            (len(self.of("nvswitch")), "NVSwitch"),
            (len(self.nics), "network card"),
        ]
        return ", ".join(
            f"{count} {word}{('es' if word.endswith('ch') else 's') * (count != 1)}" for count, word in counts if count
        )

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
        """Return the device of that name; TopologyError if there is none."""
        try:
            return self._named[name]
        except KeyError:
            raise TopologyError(
                f"{self.name} has no {name!r}; it has: {', '.join(self._named) or 'no devices'}"
            ) from None

    def above(self, name):
        """Return the device and everything above it, up to the root complex."""
        chain = [self.device(name)]
        while chain[-1].under:
            chain.append(self._named[chain[-1].under])
            if len(chain) > len(self.devices):
                raise TopologyError(f"{self.name}: {name} is under itself")
        return chain

    def numa_of(self, name):
        """Return the number of a device's NUMA node; None where not known."""
        return next((device.numa for device in self.above(name) if device.numa is not None), None)

    def threads_of(self, numa):
        """Return the processor threads of a NUMA node, sorted."""
        holders = [core for core in self.cores if core.numa == numa]
        holders += [node for node in self.numas if node.number == numa]
        return tuple(sorted(thread for holder in holders for thread in holder.threads))

    # ------------------------------------------------------------ paths and their names

    def path(self, a: str, b: str) -> tuple[Hop, ...]:
        """Return the path that data take between two parts.

        `a` and `b` name devices, or the memory of a NUMA node: "numa0", "numa1", …. Direct NVLinks come first, then
        NVLinks through shared NVSwitches, then the PCIe tree. Nothing is routed through a third GPU: no driver does
        that. The path is empty from a part to itself, and where it is not known.
        """
        if a == b:
            return ()
        between = self._nvlinks(a, {b})
        if between:
            return (_nvlink_hop(a, b, between),)
        switches = {d.name for d in self.of("nvswitch")}
        ends = [{_other(link, end) for link in self._nvlinks(end, switches)} for end in (a, b)]
        shared = ends[0] & ends[1]
        if shared:
            middle = " ".join(name for name in self._named if name in shared)
            return (_nvlink_hop(a, middle, self._nvlinks(a, shared)), _nvlink_hop(middle, b, self._nvlinks(b, shared)))
        return self._host_path(a, b)

    def bandwidth(self, a: str, b: str) -> float:
        """Return the bandwidth of the `path` between two parts in GB/s per direction.

        That of the narrowest known link: an upper bound. NaN where nothing is known, infinite from a part to itself.
        """
        if a == b:
            return math.inf
        known = [hop.gb_per_s for hop in self.path(a, b) if math.isfinite(hop.gb_per_s)]
        return min(known, default=math.nan)

    def kind(self, a, b):
        """Return what ``nvidia-smi topo -m`` calls the path between two devices.

        "X": itself. "NV#": that many NVLinks. "PIX": one PCIe switch. "PXB": several switches, no root complex. "PHB":
        the root complex. "NODE": two root complexes of one NUMA node. "SYS": two NUMA nodes. "?": not known.
        """
        if a == b:
            return "X"
        if (a, b) in self.told:
            return self.told[a, b]
        hops = self.path(a, b)
        if hops and hops[0].kind.startswith("NV"):  # the ends may have different numbers of links to a switch
            return min((hops[0].kind, hops[-1].kind), key=lambda kind: int(kind[2:]))
        chains = [[device.name for device in self.above(name)] for name in (a, b)]
        common = next((name for name in chains[0] if name in chains[1]), None)
        if common is None:
            nodes = {self.numa_of(a), self.numa_of(b)}
            return "?" if None in nodes else "NODE" if len(nodes) == 1 else "SYS"
        if self._named[common].kind == "root":
            return "PHB"
        return "PIX" if all(chain.index(common) <= 1 for chain in chains) else "PXB"

    def matrix(self, nics: bool = False) -> pandas.DataFrame:
        """Return the `kind` of path between any two GPUs, and network cards if `nics`, by their names."""
        names = [device.name for device in self.gpus + (self.nics if nics else ())]
        return pandas.DataFrame(
            [[self.kind(a, b) for b in names] for a in names], index=names, columns=names, dtype=object
        )

    def matrix_text(self):
        """Return the matrix of GPUs and network cards laid out as ``nvidia-smi topo -m`` does."""

        return matrix_text(self)

    def _nvlinks(self, name, others):
        return [link for link in self.nvlinks if name in (link.a, link.b) and _other(link, name) in others]

    def _host_path(self, a, b):
        up, down = self._to_host(a), self._to_host(b)
        if not up or not down:
            return ()
        while len(up) > 1 and len(down) > 1 and up[-2][0] == down[-2][0]:
            up.pop(), down.pop()  # they meet further down
        hops = [Hop(low, high, kind, rate) for (low, kind, rate), (high, *_) in itertools.pairwise(up)]
        if up[-1][0] != down[-1][0]:
            hops += self._between(up[-1][0], down[-1][0])
        descent = [Hop(high, low, kind, rate) for (low, kind, rate), (high, *_) in itertools.pairwise(down)]
        return (*hops, *reversed(descent))

    def _to_host(self, name):
        """Stops on the path to memory: (name, kind and GB/s of the link that leads on)."""
        if name.startswith("numa") and name not in self._named:
            self._numa(name)
            return [(name, "", math.inf)]
        stops = []
        for device in self.above(name):
            if device.kind == "root":
                stops.append((device.name, "host bridge", math.inf))
            else:
                stops.append((device.name, device.pcie, device.gb_per_s or math.nan))
        numa = self.numa_of(name)
        if numa is not None:
            stops.append((f"numa{numa}", "", math.inf))
        return stops

    def _numa(self, name):
        for numa in self.numas:
            if name == f"numa{numa.number}":
                return numa
        raise TopologyError(
            f"{self.name} has no {name!r}; it has NUMA nodes "
            f"{', '.join(f'numa{n.number}' for n in self.numas) or '(none known)'}"
        )

    def _between(self, a, b):
        """Hops between the tops of two paths, which are NUMA nodes where those are known."""
        if not (a.startswith("numa") and b.startswith("numa")):
            return [Hop(a, b, "not known", math.nan)]
        sockets = [self._numa(name).socket for name in (a, b)]
        if None in sockets:
            return [Hop(a, b, "between NUMA nodes", math.nan)]
        if sockets[0] == sockets[1]:
            return [Hop(a, b, "on chip", math.inf)]
        route = self._socket_links(*sockets)
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

    def _socket_links(self, start, goal):
        """The shortest route between two sockets: [(socket reached, link), …]."""
        routes = deque([(start, [])])
        seen = {start}
        while routes:
            socket, route = routes.popleft()
            if socket == goal:
                return route
            for link in self.socket_links:
                if socket in (link.a, link.b) and (neighbour := _other(link, socket)) not in seen:
                    seen.add(neighbour)
                    routes.append((neighbour, [*route, (neighbour, link)]))
        return []


def _other(link, end):
    return link.b if link.a == end else link.a


def _nvlink_hop(a, b, links):
    return Hop(a, b, f"NV{sum(link.count for link in links)}", sum(link.gb_per_s for link in links))
