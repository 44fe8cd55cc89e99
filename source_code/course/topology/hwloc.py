"""Reader for the XML of hwloc's ``lstopo --of xml``, versions 1 to 3.

Version 1 puts NUMA nodes above or below sockets, and has none for a machine's only memory; later versions make them
siblings of nearby objects. All versions list the processors of each object, so this reader uses those lists. An
operating system device (OSDev) has one type in versions 1 and 2, and a bit set of types in version 3.
"""

import re
from xml.parsers import expat

from course.topology.error import TopologyError
from course.topology.graph import Topology
from course.topology.link import nvlink_gb_per_s
from course.topology.parts import Device, NvLink, processors
from course.topology.pci import ADDRESS, Function, address, devices, kind_of

CACHES = {"0": "unified", "1": "data", "2": "instruction"}
FORMS = {  # pattern and description of attributes; all others are numbers
    "type": (r"\w+", "a type"),
    "version": (r"([123])(\.\d+)*", "hwloc's versions 1 to 3, whose `lstopo --of xml` writes such a file"),
    "cpuset": (r"((0x[0-9a-f]{1,8})?(,|$))*", "words like 0x0000ffff"),
    "cache_type": ("[012]", "one of 0, 1, 2"),
    "bridge_type": ("[01]-1", "0-1 (host to PCI) or 1-1 (PCI to PCI)"),
    "pci_busid": (ADDRESS, "one like 0000:81:00.0"),
    "pci_type": (r"([0-9a-f]{4}) \[([0-9a-f]{4}):.*", "a class and [vendor:device]"),
    "pci_link_speed": (r"\d+(\.\d+)?", "GB/s"),
    "name": (".*", "a name"),
}
NUMBER = (r"\d+", "a number")
DISK, MEMORY, GPU, COPROCESSOR, NETWORK, INFINIBAND = (1 << bit for bit in range(6))
# Types in version 3 by type in versions 1 and 2; type 4, DMA engines, is unused.
OLD_TYPES = {0: DISK, 1: GPU, 2: NETWORK, 3: INFINIBAND, 5: COPROCESSOR}
CXL = ("CXLMem", "NVM", "SPM")  # subtypes of memory that versions 1 and 2 call a disk
NVLINKS = re.compile(r"(?:(P100)|(V100)|(A100|A800)|(H100|H200|H800|H20)|(B100|B200|B300))(?!\d)")


class Element:
    """An XML element with its file, line and parent."""

    def __init__(self, tag, attributes, at, parent):
        self.tag, self.attributes, self.at, self.parent = tag, attributes, at, parent
        self.type = attributes.get("type", "")
        self.children, self.text = [], ""

    def fail(self, problem):
        raise TopologyError.at(*self.at, problem)

    def read(self, name, otherwise=None):
        """Return the match of an attribute with its pattern. Raises TopologyError if there is none."""
        value = self.attributes.get(name, otherwise)
        if value is None:
            self.fail(f"a <{self.tag}> of type {self.type or '?'} lacks {name}")
        pattern, expected = FORMS.get(name, NUMBER)
        return re.fullmatch(pattern, value) or self.fail(f"{name}={value!r}; expected {expected}")

    def number(self, name):
        return int(self.read(name)[0])

    def cpus(self):
        """Processors of an object, from ``0x0000ffff,,0xffffffff``: 32 to a word."""
        words = [int(word or "0", 16) for word in reversed(self.read("cpuset")[0].split(","))]
        return frozenset(32 * at + bit for at, word in enumerate(words) for bit in range(32) if word >> bit & 1)

    def memory(self):
        return self.number("local_memory") if "local_memory" in self.attributes else None

    def above(self):
        """Yield the enclosing objects, innermost first."""
        element = self.parent
        while element.tag == "object":
            yield element
            element = element.parent

    def info(self, name):
        facts = (child.attributes for child in self.children if child.tag == "info")
        return next((fact.get("value", "") for fact in facts if fact.get("name") == name), "")

    def os_fact(self, name):
        """The first non-empty value of an info of a device's operating system devices."""
        return next(filter(None, (element.info(name) for element in self.children if element.type == "OSDev")), "")


def parse(text: str | bytes, name: str = "hwloc", file: str = "lstopo --of xml") -> Topology:
    """Read a topology and call it `name`. Raises TopologyError with `file` and line if it is invalid."""
    return _Reader(text, file).topology(name)


def _elements(text, file):
    """All elements, in the file's order."""
    parser, found, above = expat.ParserCreate(), [], [None]

    def start(tag, attributes):
        element = Element(tag, attributes, (file, parser.CurrentLineNumber), above[-1])
        if above[-1]:
            above[-1].children.append(element)
        found.append(element)
        above.append(element)

    def characters(data):
        above[-1].text += data

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: above.pop()
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        problem = f"this is not XML: {expat.errors.messages[error.code]}"
        raise TopologyError.at(file, error.lineno, problem) from error
    return found


def _nvlink(a, b, gb_per_s):
    """NVLinks of a total bandwidth, counted by the generation's rate, or by a usual one."""
    match = NVLINKS.search(f"{a.model} {b.model}")
    if match and gb_per_s % nvlink_gb_per_s(match.lastindex) == 0:
        return NvLink(a.name, b.name, int(gb_per_s / nvlink_gb_per_s(match.lastindex)), match.lastindex)
    each = next((rate for rate in (25, 20) if gb_per_s % rate == 0), gb_per_s)
    return NvLink(a.name, b.name, int(gb_per_s / each), each_gb_per_s=each)


def _memory_of(device):
    """Bytes of a GPU's or CXL device's memory, which the file gives in KiB."""
    names = ("CUDAGlobalMemorySize", "CXLRAMSize", "CXLPMEMSize")
    sizes = [re.match(r"\d+", device.os_fact(name)) for name in names]
    return sum(int(size[0]) << 10 for size in sizes if size) or None


def _host(bridge):
    """Domain and bus that a host bridge leads to, from ``0000:[80-9f]``."""
    match = re.match(r"([0-9a-f]{4,8}:)\[([0-9a-f]{2})-", bridge.attributes.get("bridge_pci", ""))
    return match[1] + match[2] if match and bridge.attributes["bridge_type"] == "0-1" else ""


class _Reader:
    def __init__(self, text, file):
        self.top, *elements = _elements(text, file)
        if self.top.tag != "topology":
            self.top.fail(f"<{self.top.tag}>; expected hwloc's <topology>")
        self.objects = [element for element in elements if element.tag == "object"]
        machines = [element for element in self.objects if element.parent is self.top]
        if len(machines) != 1:
            self.top.fail(f"<topology> holds {len(machines)} <object>; expected one, of type Machine")
        self.machine = machines[0]
        self.version = int(self.top.read("version", "1.0")[1])

    def of(self, *types):
        return [element for element in self.objects if element.read("type")[0] in types]

    def topology(self, name):
        packages = {element.number("os_index"): element for element in self.of("Package", "Socket")}
        nodes = {element.number("os_index"): element for element in self.of("NUMANode", "Node")}
        numas = {number: (node.cpus(), node.memory()) for number, node in (nodes or {0: self.machine}).items()}
        cores = {}
        for element in self.of("PU"):
            core = next((above for above in element.above() if above.type == "Core"), element)
            cores.setdefault(id(core), set()).add(element.number("os_index"))
        if not cores:
            self.machine.fail("it holds no processor (an <object> of type PU)")
        parts = devices(list(self.functions(numas)))
        nvlinks, notes = self.nvlinks({part.address: part for part in parts})
        sockets = {
            number: (element.info("CPUModel") or self.machine.info("CPUModel"), element.cpus())
            for number, element in (packages or {0: self.machine}).items()
        }
        caches = [
            (
                element.number("depth"),
                CACHES[element.read("cache_type")[0]],
                element.number("cache_size"),
                element.cpus(),
            )
            for element in self.objects
            if re.fullmatch(r"(L\di?)?Cache", element.type)
        ]
        return Topology(
            name,
            "measured by hwloc",
            **processors(sockets, numas, cores.values(), caches),
            devices=parts,
            nvlinks=nvlinks,
            notes=notes,
        )

    # ------------------------------------------------------------ PCI devices

    def functions(self, numas):
        """PCI devices and bridges; their NUMA node is that of the object above them."""
        for element in self.of("Bridge", "PCIDev"):
            if element.type == "Bridge":
                element.read("bridge_type")
            if element.type == "PCIDev" or "pci_busid" in element.attributes:
                yield self.function(element, numas)

    def function(self, element, numas):
        busid, pci_type = address(element.read("pci_busid")[0]), element.read("pci_type")
        above = list(element.above())
        near = next((part.cpus() for part in above if "cpuset" in part.attributes), frozenset())
        touching = [number for number, (cpus, _) in numas.items() if cpus & near or len(numas) == 1]
        bridges = [part for part in reversed(above) if part.type == "Bridge"]
        names = self.os_names(element)
        kinds = {"nic": (INFINIBAND, NETWORK), "memory": (MEMORY,), "disk": (DISK,)}
        named = ((kind, names[known]) for kind, types in kinds.items() for known in types if known in names)
        kind, name = next(named, ("other", ""))
        kind = kind_of(int(pci_type[1], 16), int(pci_type[2], 16)) or kind
        device = Device(
            name,
            "nvswitch" if element.attributes.get("subtype") == "NVSwitch" else kind,  # the class may be hidden
            numa=touching[0] if len(touching) == 1 else None,
            model=element.os_fact("GPUModel") or element.info("PCIDevice"),
            address=busid,
            gb_per_s=float(element.read("pci_link_speed", "0")[0]) or None,
            network="InfiniBand" if INFINIBAND in names else "Ethernet" if NETWORK in names else "",
            memory_bytes=_memory_of(element),
        )
        host = next(filter(None, map(_host, bridges)), "")
        above = (address(bridge.attributes["pci_busid"]) for bridge in bridges if "pci_busid" in bridge.attributes)
        return Function(device, host, tuple(busid or "" for busid in above))

    def os_names(self, device):
        """{type: name} of a PCI device's operating system devices."""
        names = {}
        for element in device.children:
            if element.type != "OSDev":
                continue
            types = element.number("osdev_type")
            if self.version < 3:
                types = OLD_TYPES.get(types, 0)
                if types == DISK and element.attributes.get("subtype") in CXL:
                    types = MEMORY
            # Some memory is also a disk; in version 3, InfiniBand is also a network.
            types = next((kind for kind in (MEMORY, INFINIBAND) if types & kind), types)
            names.setdefault(types, element.read("name")[0])
        return names

    # ------------------------------------------------------------ NVLinks

    def nvlinks(self, known):
        """Return NVLinks between devices (`known` by address), and notes on other NVLinks.

        hwloc lists them as a matrix of MB/s in one direction, over all links of a pair; its rows and columns are
        objects, by type and number.
        """
        found = {}  # devices, or the names of other objects
        for element in self.objects:
            around = (part.attributes for part in (element, *element.above()))
            busid = next((part["pci_busid"] for part in around if "pci_busid" in part), "")
            name = f"{element.type} {element.attributes.get('os_index', '')}".strip()
            found[element.type, element.attributes.get("gp_index")] = known.get(address(busid), name)
        links, elsewhere = [], []
        for matrix in self.top.children:
            if matrix.attributes.get("name") != "NVLinkBandwidth":
                continue
            ends, rates = self.matrix(matrix)
            ends = [found.get(end, " ".join(end)) for end in ends]
            for row, a in enumerate(ends):
                for b, rate in zip(ends[:row], rates[row * len(ends) :], strict=False):
                    if not rate:
                        continue
                    if isinstance(a, str) or isinstance(b, str):
                        elsewhere.append(f"{getattr(b, 'name', b)} – {getattr(a, 'name', a)} {rate / 1000:g} GB/s")
                    elif a != b:
                        links.append(_nvlink(b, a, rate / 1000))
        note = "NVLinks to ends that are not PCI devices are not drawn: " + ", ".join(elsewhere)
        return tuple(links), (note,) * bool(elsewhere)

    def matrix(self, element):
        """Ends, as (type, number), and values of an hwloc matrix."""
        words = {
            tag: " ".join(child.text for child in element.children if child.tag == tag).split()
            for tag in ("indexes", "u64values")
        }
        ends = [tuple((word if ":" in word else f"{element.type}:{word}").split(":", 1)) for word in words["indexes"]]
        rates = words["u64values"]
        if len(rates) != len(ends) ** 2 or not all(re.fullmatch(r"\d+", rate) for rate in rates):
            expected = f"NVLinkBandwidth of {len(ends)} objects needs {len(ends) ** 2} numbers"
            element.fail(f"{expected}; it has {len(rates)}")
        return ends, list(map(int, rates))
