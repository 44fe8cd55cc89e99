"""Read the XML of hwloc's ``lstopo --of xml``, versions 1 to 3.

Version 1 puts NUMA nodes above or below sockets, and has none for a machine's only memory; later versions put them
beside what they are near. All versions list the processors of each object, so that is what is read here. An operating
system device (OSDev) has one type in versions 1 and 2, and a bit set of types in version 3.
"""

import re
from xml.parsers import expat

from course.topology.error import TopologyError
from course.topology.graph import Topology
from course.topology.link import nvlink_gb_per_s
from course.topology.parts import Device, NvLink, processors
from course.topology.pci import Function, address, devices, kind_of

CACHES = {"0": "unified", "1": "data", "2": "instruction"}
VERSIONS = (1, 2, 3)
DISK, MEMORY, GPU, COPROCESSOR, NETWORK, INFINIBAND = (1 << bit for bit in range(6))
# Version 3's types for those of versions 1 and 2; type 4, DMA engines, is not used here.
OLD_TYPES = {0: DISK, 1: GPU, 2: NETWORK, 3: INFINIBAND, 5: COPROCESSOR}
CXL = ("CXLMem", "NVM", "SPM")  # subtypes of memory that versions 1 and 2 call a disk
NVLINKS = re.compile(r"(?:(P100)|(V100)|(A100|A800)|(H100|H200|H800|H20)|(B100|B200|B300))(?!\d)")


class Element:
    """An XML element with its line number and the element that it is in."""

    def __init__(self, tag, attributes, line, parent):
        self.tag, self.attributes, self.line, self.parent = tag, attributes, line, parent
        self.type = attributes.get("type", "")
        self.children, self.text = [], ""

    def above(self):
        """Yield the objects that it is in, innermost first."""
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
    """Read a topology and call it `name`; a TopologyError names `file`, the line and what was expected."""
    return _Reader(text, file).topology(name)


def _elements(text, file):
    """All elements, in the file's order."""
    parser, found, above = expat.ParserCreate(), [], [None]

    def start(tag, attributes):
        element = Element(tag, attributes, parser.CurrentLineNumber, above[-1])
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
        self.file = file
        self.top, *elements = _elements(text, file)
        if self.top.tag != "topology":
            self.fail(self.top, f"<{self.top.tag}>; expected hwloc's <topology>")
        self.objects = [element for element in elements if element.tag == "object"]
        machines = [element for element in self.objects if element.parent is self.top]
        if len(machines) != 1:
            self.fail(self.top, f"<topology> holds {len(machines)} <object>; expected one, of type Machine")
        self.machine = machines[0]
        version = self.top.attributes.get("version", "1.0")
        if not re.fullmatch(r"\d+(\.\d+)*", version) or int(version.split(".")[0]) not in VERSIONS:
            self.fail(
                self.top,
                f"<topology version={version!r}>, and hwloc's versions {min(VERSIONS)} to {max(VERSIONS)} are read "
                "here: `lstopo --of xml` of one of those writes such a file",
            )
        self.version = int(version.split(".")[0])

    def fail(self, element, problem):
        raise TopologyError.at(self.file, element.line, problem)

    def attribute(self, element, name):
        value = element.attributes.get(name)
        if value is None:
            self.fail(element, f"a <{element.tag}> of type {element.type or '?'} lacks {name}")
        return value

    def number(self, element, name):
        value = self.attribute(element, name)
        if not re.fullmatch(r"\d+", value):
            self.fail(element, f"{name}={value!r} is not a number")
        return int(value)

    def cpuset(self, element):
        """Processors of an object, from ``0x0000ffff,,0xffffffff``: 32 to a word."""
        text = self.attribute(element, "cpuset")
        bits = 0
        for word in text.split(","):
            if word and not re.fullmatch(r"0x[0-9a-f]{1,8}", word):
                self.fail(element, f"cpuset={text!r}; expected words like 0x0000ffff")
            bits = bits << 32 | int(word or "0", 16)
        return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)

    def of(self, *types):
        return [element for element in self.objects if self.attribute(element, "type") in types]

    def topology(self, name):
        packages = {self.number(element, "os_index"): element for element in self.of("Package", "Socket")}
        packages = packages or {0: self.machine}
        nodes = {self.number(element, "os_index"): element for element in self.of("NUMANode", "Node")}
        numas = {
            number: (self.cpuset(node), self.memory(node)) for number, node in (nodes or {0: self.machine}).items()
        }
        cores = {}
        for element in self.of("PU"):
            core = next((above for above in element.above() if above.type == "Core"), element)
            cores.setdefault(id(core), set()).add(self.number(element, "os_index"))
        if not cores:
            self.fail(self.machine, "it holds no processor (an <object> of type PU)")
        parts = devices(list(self.functions(numas)))
        nvlinks, notes = self.nvlinks({part.address: part for part in parts})
        sockets = {
            number: (element.info("CPUModel") or self.machine.info("CPUModel"), self.cpuset(element))
            for number, element in packages.items()
        }
        return Topology(
            name,
            "measured by hwloc",
            **processors(sockets, numas, cores.values(), self.caches()),
            devices=parts,
            nvlinks=nvlinks,
            notes=notes,
        )

    def memory(self, element):
        return self.number(element, "local_memory") if "local_memory" in element.attributes else None

    def caches(self):
        for element in self.objects:
            if not re.fullmatch(r"(L\di?)?Cache", element.type):
                continue
            kind = self.attribute(element, "cache_type")
            if kind not in CACHES:
                self.fail(element, f"cache_type={kind!r}; expected one of {', '.join(CACHES)}")
            depth, size_bytes = (self.number(element, name) for name in ("depth", "cache_size"))
            yield depth, CACHES[kind], size_bytes, self.cpuset(element)

    # ------------------------------------------------------------ PCI devices

    def functions(self, numas):
        """PCI devices and bridges; their NUMA node is that of the object above them."""
        for element in self.of("Bridge", "PCIDev"):
            if element.type == "Bridge" and self.attribute(element, "bridge_type") not in ("0-1", "1-1"):
                self.fail(element, "expected bridge_type=0-1 (host to PCI) or 1-1 (PCI to PCI)")
            if element.type == "PCIDev" or "pci_busid" in element.attributes:
                yield self.function(element, numas)

    def function(self, element, numas):
        busid, pci_type = self.attribute(element, "pci_busid"), self.attribute(element, "pci_type")
        if not address(busid):
            self.fail(element, f"pci_busid={busid!r}; expected one like 0000:81:00.0")
        match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):", pci_type)
        if not match:
            self.fail(element, f"pci_type={pci_type!r}; expected a class and [vendor:device]")
        above = list(element.above())
        near = next((self.cpuset(part) for part in above if "cpuset" in part.attributes), frozenset())
        touching = [number for number, (cpus, _) in numas.items() if cpus & near or len(numas) == 1]
        bridges = [part for part in reversed(above) if part.type == "Bridge"]
        names = self.os_names(element)
        kinds = {"nic": (INFINIBAND, NETWORK), "memory": (MEMORY,), "disk": (DISK,)}
        named = ((kind, names[known]) for kind, types in kinds.items() for known in types if known in names)
        kind, name = next(named, ("other", ""))
        kind = kind_of(int(match[1], 16), int(match[2], 16)) or kind
        device = Device(
            name,
            "nvswitch" if element.attributes.get("subtype") == "NVSwitch" else kind,  # its class may be hidden
            numa=touching[0] if len(touching) == 1 else None,
            model=element.os_fact("GPUModel") or element.info("PCIDevice"),
            address=address(busid),
            gb_per_s=self.link(element),
            network="InfiniBand" if INFINIBAND in names else "Ethernet" if NETWORK in names else "",
            memory_bytes=_memory_of(element),
        )
        host = next(filter(None, map(_host, bridges)), "")
        return Function(
            device,
            host,
            tuple(address(b.attributes["pci_busid"]) or "" for b in bridges if "pci_busid" in b.attributes),
        )

    def os_names(self, device):
        """{type: name} of a PCI device's operating system devices."""
        names = {}
        for element in device.children:
            if element.type != "OSDev":
                continue
            types = self.number(element, "osdev_type")
            if self.version < 3:
                types = OLD_TYPES.get(types, 0)
                if types == DISK and element.attributes.get("subtype") in CXL:
                    types = MEMORY
            if types & MEMORY:  # some memory is a disk, too
                types = MEMORY
            if types & INFINIBAND:  # in version 3 also a network
                types = INFINIBAND
            names.setdefault(types, self.attribute(element, "name"))
        return names

    def link(self, element):
        speed = element.attributes.get("pci_link_speed", "0")
        if not re.fullmatch(r"\d+(\.\d+)?", speed):
            self.fail(element, f"pci_link_speed={speed!r}; expected GB/s")
        return float(speed) or None

    # ------------------------------------------------------------ NVLinks

    def nvlinks(self, known):
        """NVLinks between devices (`known` by address), and notes on those that lead elsewhere.

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
        note = "NVLinks to what is no PCI device are not drawn: " + ", ".join(elsewhere)
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
            self.fail(element, f"{expected}; it has {len(rates)}")
        return ends, list(map(int, rates))
