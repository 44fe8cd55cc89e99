"""Reader for the XML of hwloc's ``lstopo --of xml``, versions 2 and 3.

Both list the processors of each object, so this reader uses those lists, whatever the nesting.
"""

import re
from xml.etree import ElementTree

from course.topology.error import TopologyError
from course.topology.graph import Topology
from course.topology.parts import CACHES, Device, processors
from course.topology.pci import ADDRESS, Function, address, devices, kind_of
from course.topology.text import amount

CPUSET = r"(?:(?:0x[0-9a-f]{1,8})?(?:,|$))*"
PCI_TYPE = r"([0-9a-f]{4}) \[([0-9a-f]{4}):.*"  # class and vendor
# Types of OSDev: bits in version 3, numbers in version 2.
DISK, NETWORK, INFINIBAND = 1, 16, 32
NUMBERED = {0: DISK, 2: NETWORK, 3: INFINIBAND}
NO_NVLINKS = "NVLinks are not read from hwloc's XML: `nvidia-smi topo -m` has them"


def parse(text: str | bytes, name: str = "hwloc", file: str = "lstopo --of xml") -> Topology:
    """Read a topology and call it `name`. Raises TopologyError with `file` if it is invalid."""
    try:
        top = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise TopologyError.at(file, error.position[0], f"this is not XML: {error}") from error
    version = re.fullmatch(r"([23])(\.\d+)*", top.get("version", ""))
    if top.tag != "topology" or not version:
        raise TopologyError(f"{file}: this is not the XML of hwloc 2 or 3, as `lstopo --of xml` writes it")
    try:
        return _Reader(top, int(version[1])).topology(name)
    except TopologyError as error:
        raise TopologyError(f"{file}: {error}") from error


def _read(element, name, pattern=r"\d+", otherwise=""):
    """Return the match of an attribute with its pattern. Raises TopologyError if there is none."""
    value = element.get(name, otherwise)
    if found := re.fullmatch(pattern, value):
        return found
    raise TopologyError(f"{name}={value!r} of an <object> of type {element.get('type')!r} is not what hwloc writes")


def _address(element):
    return address(_read(element, "pci_busid", ADDRESS)[0])


def _number(element, name):
    return int(_read(element, name)[0])


def _cpus(element):
    """Processors of an object, from ``0x0000ffff,,0xffffffff``: 32 to a word."""
    words = [int(word or "0", 16) for word in reversed(_read(element, "cpuset", CPUSET, "?")[0].split(","))]
    return frozenset(32 * at + bit for at, word in enumerate(words) for bit in range(32) if word >> bit & 1)


def _info(element, name):
    return next((info.get("value", "") for info in element.iterfind("info") if info.get("name") == name), "")


def _os_devices(device):
    return device.iterfind("object[@type='OSDev']")


def _os_info(device, name):
    """The first non-empty value of an info of a device's operating system devices."""
    return next(filter(None, (_info(element, name) for element in _os_devices(device))), "")


class _Reader:
    def __init__(self, top, version):
        self.top, self.version = top, version
        self.parents = {child: parent for parent in top.iter() for child in parent}
        self.partitions = {}  # by the address of a PCI device: the names of its GPUs
        self.machine = top.find("object")
        if self.machine is None:
            raise TopologyError("<topology> holds no <object>")

    def of(self, *types):
        return [element for element in self.top.iter("object") if element.get("type") in types]

    def above(self, element):
        """Yield the enclosing objects, innermost first."""
        while (element := self.parents[element]) is not self.top:
            yield element

    def topology(self, name):
        packages = {_number(element, "os_index"): element for element in self.of("Package")}
        numas, on_gpus = {}, {}
        for element in self.of("NUMANode"):
            memory = int(_read(element, "local_memory", otherwise="0")[0])
            nodes = on_gpus if element.get("subtype") == "GPUMemory" else numas
            nodes[_number(element, "os_index")] = _cpus(element), memory
        cores = {}
        for element in self.of("PU"):
            core = next((above for above in self.above(element) if above.get("type") == "Core"), element)
            cores.setdefault(core, set()).add(_number(element, "os_index"))
        if not cores or not numas:
            raise TopologyError("it holds no processor (PU) or no NUMANode")
        parts = devices([self.function(element, numas) for element in self.of("Bridge", "PCIDev") if _is_pci(element)])
        sockets = {
            number: (_info(element, "CPUModel") or _info(self.machine, "CPUModel"), _cpus(element))
            for number, element in (packages or {0: self.machine}).items()
        }
        caches = [
            (
                _number(element, "depth"),
                CACHES[int(_read(element, "cache_type", "[012]")[0])],
                _number(element, "cache_size"),
                _cpus(element),
            )
            for element in self.of(*(f"L{level}{kind}Cache" for level in range(1, 6) for kind in ("", "i")))
        ]
        gpus = [part for part in parts if part.kind == "gpu"]
        notes = [NO_NVLINKS] if gpus else []
        notes += [
            f"NUMA node {number} is the memory of a GPU: {amount(memory)}"
            for number, (_, memory) in on_gpus.items()
            if memory
        ]
        for gpu in gpus:
            if len(partitions := self.partitions[gpu.address]) > 1:
                notes.append(f"{gpu.name} is divided into {len(partitions)} GPUs: {', '.join(partitions)}")
        return Topology(
            name,
            "measured by hwloc",
            **processors(sockets, numas, cores.values(), caches),
            devices=parts,
            notes=tuple(notes),
        )

    def function(self, element, numas):
        """A PCI device or bridge; its NUMA node is that of the object above it."""
        pci_type = _read(element, "pci_type", PCI_TYPE)
        above = list(self.above(element))
        near = next((_cpus(part) for part in above if "cpuset" in part.attrib), frozenset())
        touching = [number for number, (cpus, _) in numas.items() if cpus & near or len(numas) == 1]
        bridges = [part for part in reversed(above) if part.get("type") == "Bridge"]
        names = self.os_names(element)
        memory = re.match(r"\d+", _os_info(element, "CUDAGlobalMemorySize"))  # in KiB
        gpus = _gpus(element)
        kind = "nic" if {INFINIBAND, NETWORK} & set(names) else "disk" if DISK in names else "other"
        kind = "gpu" if gpus else kind_of(int(pci_type[1], 16), int(pci_type[2], 16)) or kind
        place = _address(element)
        self.partitions[place] = gpus
        device = Device(
            next((names[known] for known in (INFINIBAND, NETWORK, DISK) if known in names), ""),
            "nvswitch" if element.get("subtype") == "NVSwitch" else kind,  # the class may be hidden
            numa=touching[0] if len(touching) == 1 else None,
            model=_os_info(element, "GPUModel") or _info(element, "PCIDevice"),
            address=place,
            gb_per_s=float(_read(element, "pci_link_speed", r"\d+(\.\d+)?", "0")[0]) or None,
            network="InfiniBand" if INFINIBAND in names else "Ethernet" if NETWORK in names else "",
            memory_bytes=int(memory[0]) << 10 if memory else None,
        )
        # The host bridge's domain and bus, from "0000:[80-9f]".
        outermost = bridges[0].get("bridge_pci", "") if bridges else ""
        lead = re.match(r"([0-9a-f]{4,8}:)\[([0-9a-f]{2})-", outermost)
        host = lead[1] + lead[2] if lead else ""
        return Function(device, host, tuple(_address(part) for part in bridges if _is_pci(part)))

    def os_names(self, device):
        """{type: name} of a PCI device's operating system devices."""
        names = {}
        for element in _os_devices(device):
            types = _number(element, "osdev_type")
            types = NUMBERED.get(types, 0) if self.version == 2 else types
            # In version 3, InfiniBand is also a network.
            known = next((kind for kind in (INFINIBAND, NETWORK, DISK) if types & kind), 0)
            names.setdefault(known, element.get("name", ""))
        return names


def _gpus(device):
    """Return the names of the GPUs in a PCI device, from the library that lists most of them."""
    names = {}
    for element in _os_devices(device):
        if _info(element, "GPUModel"):
            names.setdefault(_info(element, "Backend"), []).append(element.get("name", ""))
    return max(names.values(), key=len, default=[])


def _is_pci(element):
    return "pci_busid" in element.attrib
