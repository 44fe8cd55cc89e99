"""Parts of a machine. Bandwidths are nominal, in GB/s (10^9 bytes per second) and PER DIRECTION."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from course.machine.error import TopologyError
from course.machine.link import nvlink_gb_per_s, pcie_gb_per_s

CACHES = ("unified", "data", "instruction")
DEVICE_KINDS = {  # and their common names
    "root": "PCIe root",
    "switch": "PCIe switch",
    "gpu": "GPU",
    "nic": "network card",
    "nvswitch": "NVSwitch",
    "disk": "disk",
    "other": "device",
}


@dataclass(frozen=True)
class Socket:
    """A processor chip."""

    number: int  # the operating system's number
    model: str = ""


@dataclass(frozen=True)
class Numa:
    """A NUMA node: memory, and the cores near it."""

    number: int
    socket: int | None  # None: unknown
    memory_bytes: int | None = None
    memory_gb_per_s: float | None = None  # reads and writes together, which share one bus
    threads: tuple = ()  # processor threads whose cores are unknown


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
    kind: str  # one of CACHES
    size_bytes: int
    cores: tuple  # numbers of the cores that share it


@dataclass(frozen=True)
class Device:
    """A part of the PCIe tree: a root complex, switch, GPU, network card and so on."""

    name: str
    kind: str  # one of DEVICE_KINDS
    under: str = ""  # the switch or root complex above; empty for a root complex, or if unknown
    numa: int | None = None  # None: same as `under`, or unknown
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
        """Its upstream link: "PCIe 3 x16", or "PCIe" if details are unknown."""
        known = self.generation and self.width
        return f"PCIe {self.generation} x{self.width}" if known else "PCIe"


class Link:
    """A link of two ends, `a` and `b`."""

    def other(self, end):
        """Return the end that is not `end`."""
        return self.b if self.a == end else self.a


@dataclass(frozen=True)
class NvLink(Link):
    """The NVLinks between two GPUs, or between a GPU and an NVSwitch."""

    a: str
    b: str
    count: int
    generation: int | None = None

    def __post_init__(self):
        if self.count < 1 or self.a == self.b:
            raise TopologyError(
                f"NVLinks between {self.a} and {self.b}, {self.count} of them: "
                "needs two different ends and at least one link"
            )

    @property
    def gb_per_s(self):
        """Bandwidth per direction of all links; NaN if the generation is unknown."""
        return self.count * nvlink_gb_per_s(self.generation) if self.generation else math.nan


@dataclass(frozen=True)
class SocketLink(Link):
    """A link between two sockets."""

    a: int
    b: int
    kind: str  # "QPI", "UPI", "xGMI" or the like
    count: int = 1
    gb_per_s: float | None = None  # of each, per direction


@dataclass(frozen=True)
class Network:
    """A machine's connection to its cluster."""

    kind: str  # "InfiniBand EDR", "Ethernet" or the like
    nics: int  # ports used for training, without those for storage and management
    gbit_per_s: float  # of each, in 10^9 bits a second, per direction

    def __post_init__(self):
        if self.nics < 1 or not self.gbit_per_s > 0:
            raise TopologyError(
                f"a network of {self.nics} cards at {self.gbit_per_s} Gbit/s: "
                "needs at least one card and a positive rate"
            )

    @property
    def gb_per_s(self):
        """Bandwidth of all cards of a machine, per direction."""
        return self.nics * self.gbit_per_s / 8


@dataclass(frozen=True)
class Hop:
    """One link of a path between two parts."""

    start: str
    end: str
    kind: str  # "NV2", "PCIe 3 x16", "host bridge", "on chip", "QPI" or the like
    gb_per_s: float  # per direction; infinite if it is not a limit, NaN if unknown

    def reversed(self):
        """Return the hop in the other direction."""
        return replace(self, start=self.end, end=self.start)


def processors(packages: dict, nodes: dict, cores: Iterable, caches: Iterable) -> dict[str, tuple]:
    """Return the sockets, numas, cores and caches of a `Topology` from the system's thread numbers.

    `packages` has each socket's model and threads by its number, `nodes` each NUMA node's threads, bytes of memory and
    its GB/s if known, `cores` each core's threads, `caches` each cache's level, kind, bytes and threads. Nodes without
    threads and memory, which some systems reserve, are left out.
    """
    nodes = {number: node for number, node in nodes.items() if node[0] or node[1]} or nodes
    package_of = {thread: number for number, (_, threads) in packages.items() for thread in threads}
    numa_of = {thread: number for number in sorted(nodes, reverse=True) for thread in nodes[number][0]}
    ordered = sorted((package_of.get(min(threads), min(packages)), sorted(threads)) for threads in cores)
    core_of = {thread: number for number, (_, threads) in enumerate(ordered) for thread in threads}
    return {
        "sockets": tuple(Socket(number, model) for number, (model, _) in sorted(packages.items())),
        "numas": tuple(
            Numa(number, package_of.get(min(threads, default=-1), min(packages)), *memory)
            for number, (threads, *memory) in sorted(nodes.items())
        ),
        "cores": tuple(
            Core(number, package, numa_of.get(threads[0], min(nodes)), tuple(threads))
            for number, (package, threads) in enumerate(ordered)
        ),
        "caches": tuple(
            sorted(
                {
                    Cache(*facts, tuple(sorted({core_of[thread] for thread in threads if thread in core_of})))
                    for *facts, threads in caches
                }
            )
        ),
    }
