"""Read the XML of hwloc's ``lstopo --of xml``, versions 1 to 3.

Version 1 puts NUMA nodes above or below sockets, and has none for a machine's only memory; later versions put them
beside what they are near. All versions list the processors of each object, so that is what is read here. An operating
system device (OSDev) has one type in versions 1 and 2, and a bit set of types in version 3.
"""

import re
import shutil
import subprocess
from xml.parsers import expat

from ddl.topology.error import TopologyError
from ddl.topology.graph import Cache, Core, Numa, NvLink, Socket, Topology
from ddl.topology.link import nvlink_gb_per_s
from ddl.topology.pci import NVIDIA, Function, address, devices

DEEPEST = 200  # levels of objects: a machine has about 15
KINDS = {"0": "unified", "1": "data", "2": "instruction"}
VERSIONS = (1, 2, 3)
DISK, MEMORY, GPU, COPROCESSOR, NETWORK, INFINIBAND = (1 << bit for bit in range(6))
# Version 3's types for those of versions 1 and 2; type 4, DMA engines, is not used here.
OLD_TYPES = {0: DISK, 1: GPU, 2: NETWORK, 3: INFINIBAND, 5: COPROCESSOR}
CXL = ("CXLMem", "NVM", "SPM")  # subtypes of memory that versions 1 and 2 call a disk
NVLINKS = re.compile(r"(?:(P100)|(V100)|(A100|A800)|(H100|H200|H800|H20)|(B100|B200|B300))(?!\d)")


class Element:
    """An XML element and its line number."""

    def __init__(self, tag, attributes, line):
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children, self.text = [], ""

    def walk(self, *above):
        """Yield this object and all below it, each with its ancestors, outermost first."""
        yield self, above
        for child in self.children:
            if child.tag == "object":
                yield from child.walk(*above, self)

    def info(self, name):
        facts = (child.attributes for child in self.children if child.tag == "info")
        return next((fact.get("value", "") for fact in facts if fact.get("name") == name), "")


def parse(text: str | bytes, name: str = "hwloc", file: str = "lstopo --of xml") -> Topology:
    """Read a topology and call it `name`; a TopologyError names `file`, the line and what was expected."""
    top, machine = _elements(text, file)
    version = top.attributes.get("version", "1.0")
    if not re.fullmatch(r"\d+(\.\d+)*", version) or int(version.split(".")[0]) not in VERSIONS:
        problem = (
            f"<topology version={version!r}>, and hwloc's versions {min(VERSIONS)} to {max(VERSIONS)} are read here: "
            "`lstopo --of xml` of one of those writes such a file"
        )
        raise TopologyError.at(file, top.line, problem)
    return _Reader(top, machine, file, int(version.split(".")[0])).topology(name)


def ask():
    """Return hwloc's XML of this machine, or None where it is not installed."""
    command = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
    if not command:
        return None
    # Also show what this process may not use; version 1 calls the option --whole-system.
    for everything in ("--disallowed", "--whole-system"):
        try:
            done = subprocess.run([command, "--of", "xml", "--whole-io", everything], capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return None


def _elements(text, file):
    parser, stack, tops = expat.ParserCreate(), [], []

    def start(tag, attributes):
        if len(stack) == DEEPEST:
            raise TopologyError.at(
                file, parser.CurrentLineNumber, f"objects lie in each other here more than {DEEPEST} deep"
            )
        element = Element(tag, attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else tops).append(element)
        stack.append(element)

    def characters(data):
        stack[-1].text += data

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: stack.pop()
    parser.CharacterDataHandler = characters
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        problem = f"this is no XML: {expat.errors.messages[error.code]}"
        raise TopologyError.at(file, error.lineno, problem) from error
    if tops[0].tag != "topology":
        raise TopologyError.at(file, tops[0].line, f"<{tops[0].tag}>, and hwloc's <topology> was expected")
    machine = [child for child in tops[0].children if child.tag == "object"]
    if len(machine) != 1:
        raise TopologyError.at(
            file, tops[0].line, f"<topology> holds {len(machine)} <object>, and one of type Machine was expected"
        )
    return tops[0], machine[0]


def _nvlink(a, b, gb_per_s):
    """NVLinks of a total bandwidth, counted by the generation's rate, or by a usual one."""
    match = NVLINKS.search(f"{a.model} {b.model}")
    if match and gb_per_s % nvlink_gb_per_s(match.lastindex) == 0:
        return NvLink(a.name, b.name, int(gb_per_s / nvlink_gb_per_s(match.lastindex)), match.lastindex)
    each = next((rate for rate in (25, 20) if gb_per_s % rate == 0), gb_per_s)
    return NvLink(a.name, b.name, int(gb_per_s / each), each_gb_per_s=each)


def _os_devices(device):
    return [element for element in device.children if element.attributes.get("type") == "OSDev"]


def _fact(device, name):
    """The first non-empty value of an info of a device's operating system devices."""
    return next(filter(None, (element.info(name) for element in _os_devices(device))), "")


def _device_memory(device):
    """Bytes of a GPU's or CXL device's memory, which the file gives in KiB."""
    names = ("CUDAGlobalMemorySize", "CXLRAMSize", "CXLPMEMSize")
    sizes = [re.match(r"\d+", _fact(device, name)) for name in names]
    return sum(int(size[0]) << 10 for size in sizes if size) or None


def _host(bridge):
    """Domain and bus that a host bridge leads to, from ``0000:[80-9f]``."""
    text = bridge.attributes.get("bridge_pci", "")
    match = re.match(r"([0-9a-f]{4,8}:)\[([0-9a-f]{2})-", text)
    return match[1] + match[2] if match and bridge.attributes["bridge_type"] == "0-1" else ""


class _Reader:
    def __init__(self, top, machine, file, version):
        self.top, self.machine, self.file, self.version = top, machine, file, version
        self.objects = list(machine.walk())

    def fail(self, element, problem):
        raise TopologyError.at(self.file, element.line, problem)

    def attribute(self, element, name):
        value = element.attributes.get(name)
        if value is None:
            self.fail(element, f"a <{element.tag}> of type {element.attributes.get('type', '?')} lacks {name}")
        return value

    def number(self, element, name):
        value = self.attribute(element, name)
        if not re.fullmatch(r"\d+", value):
            self.fail(element, f"{name}={value!r}, and a number was expected")
        return int(value)

    def cpuset(self, element):
        """Processors of an object, from ``0x0000ffff,,0xffffffff``: 32 to a word."""
        text = self.attribute(element, "cpuset")
        bits = 0
        for word in text.split(","):
            if word and not re.fullmatch(r"0x[0-9a-f]{1,8}", word):
                self.fail(element, f"cpuset={text!r}, and words like 0x0000ffff were expected")
            bits = bits << 32 | int(word or "0", 16)
        return frozenset(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)

    def of(self, *types):
        return [(element, above) for element, above in self.objects if self.attribute(element, "type") in types]

    def topology(self, name):
        packages = {
            self.number(element, "os_index"): (element, self.cpuset(element))
            for element, _ in self.of("Package", "Socket")
        }
        packages = packages or {0: (self.machine, self.cpuset(self.machine))}
        numas = {
            self.number(element, "os_index"): (self.cpuset(element), self.memory(element))
            for element, _ in self.of("NUMANode", "Node")
        }
        numas = numas or {0: (self.cpuset(self.machine), self.memory(self.machine))}
        package_of = {cpu: number for number, (_, cpus) in packages.items() for cpu in cpus}
        numa_of = {cpu: number for number in sorted(numas, reverse=True) for cpu in numas[number][0]}
        cores = {}
        for element, above in self.of("PU"):
            thread = self.number(element, "os_index")
            core = next((a for a in above if a.attributes["type"] == "Core"), element)
            cores.setdefault(id(core), set()).add(thread)
        if not cores:
            self.fail(self.machine, "it holds no processor (an <object> of type PU)")
        functions = list(self.functions(numas))
        parts = devices(functions)
        nvlinks, notes = self.nvlinks({part.address: part for part in parts})
        ordered = sorted((package_of.get(min(threads), min(packages)), sorted(threads)) for threads in cores.values())
        number_of = {thread: number for number, (_, threads) in enumerate(ordered) for thread in threads}
        return Topology(
            name,
            "measured by hwloc",
            sockets=tuple(
                Socket(number, element.info("CPUModel") or self.machine.info("CPUModel"))
                for number, (element, _) in sorted(packages.items())
            ),
            numas=tuple(
                Numa(number, package_of.get(min(cpus, default=-1), min(packages)), memory)
                for number, (cpus, memory) in sorted(numas.items())
            ),
            cores=tuple(
                Core(number, package, numa_of.get(threads[0], min(numas)), tuple(threads))
                for number, (package, threads) in enumerate(ordered)
            ),
            caches=tuple(sorted({cache for element, _ in self.objects if (cache := self.cache(element, number_of))})),
            devices=parts,
            nvlinks=nvlinks,
            notes=notes,
        )

    def memory(self, element):
        return self.number(element, "local_memory") if "local_memory" in element.attributes else None

    def cache(self, element, number_of):
        if not re.fullmatch(r"(L\di?)?Cache", element.attributes["type"]):
            return None
        kind = self.attribute(element, "cache_type")
        if kind not in KINDS:
            self.fail(element, f"cache_type={kind!r}, and one of {', '.join(KINDS)} was expected")
        cores = {number_of[cpu] for cpu in self.cpuset(element) if cpu in number_of}
        depth, size_bytes = (self.number(element, name) for name in ("depth", "cache_size"))
        return Cache(depth, KINDS[kind], size_bytes, tuple(sorted(cores)))

    def functions(self, numas):
        """PCI devices and bridges; their NUMA node is that of the object above them."""
        for element, above in self.objects:
            kind = element.attributes["type"]
            if kind == "Bridge" and self.attribute(element, "bridge_type") not in ("0-1", "1-1"):
                self.fail(element, "bridge_type=0-1 (host to PCI) or 1-1 (PCI to PCI) was expected")
            if kind == "PCIDev" or (kind == "Bridge" and "pci_busid" in element.attributes):
                yield self.function(element, above, numas)

    def function(self, element, above, numas):
        busid = self.attribute(element, "pci_busid")
        at = address(busid)
        if not at:
            self.fail(element, f"pci_busid={busid!r}, and one like 0000:81:00.0 was expected")
        pci_type = self.attribute(element, "pci_type")
        match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):", pci_type)
        if not match:
            self.fail(element, f"pci_type={pci_type!r}, and a class and [vendor:device] were expected")
        bridges = [a for a in above if a.attributes["type"] == "Bridge"]
        near = next((self.cpuset(a) for a in reversed(above) if "cpuset" in a.attributes), frozenset())
        touching = [number for number, (cpus, _) in numas.items() if cpus & near or len(numas) == 1]
        named = self.named(element)
        pci_class, vendor = int(match[1], 16), int(match[2], 16)
        if element.attributes.get("subtype") == "NVSwitch":  # its class may be hidden
            pci_class, vendor = 0x0680, NVIDIA
        return Function(
            at,
            next(filter(None, map(_host, bridges)), ""),
            tuple(address(a.attributes["pci_busid"]) or "" for a in bridges if "pci_busid" in a.attributes),
            pci_class,
            vendor,
            touching[0] if len(touching) == 1 else None,
            _fact(element, "GPUModel") or element.info("PCIDevice"),
            gb_per_s=self.link(element),
            nic=named.get(INFINIBAND) or named.get(NETWORK, ""),
            disk=named.get(DISK, ""),
            memory=named.get(MEMORY, ""),
            network="InfiniBand" if INFINIBAND in named else "Ethernet" if NETWORK in named else "",
            memory_bytes=_device_memory(element),
        )

    def named(self, device):
        """{type: name} of a PCI device's operating system devices."""
        names = {}
        for element in _os_devices(device):
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
            self.fail(element, f"pci_link_speed={speed!r}, and GB/s were expected")
        return float(speed) or None

    # ------------------------------------------------------------ NVLinks

    def nvlinks(self, known):
        """NVLinks between devices (`known` by address), and notes on those that lead elsewhere.

        hwloc lists them as a matrix of MB/s in one direction, over all links of a pair; its rows and columns are
        objects, by type and number.
        """
        found = {}  # devices, or the names of other objects
        for element, above in self.objects:
            kind, facts = element.attributes["type"], element.attributes
            around = (part.attributes for part in (element, *reversed(above)))
            busid = next((part["pci_busid"] for part in around if "pci_busid" in part), "")
            name = f"{kind} {facts.get('os_index', '')}".strip()
            found[kind, facts.get("gp_index")] = known.get(address(busid), name)
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
        common = element.attributes.get("type", "")
        ends = [tuple((word if ":" in word else f"{common}:{word}").split(":", 1)) for word in words["indexes"]]
        rates = words["u64values"]
        if len(rates) != len(ends) ** 2 or not all(re.fullmatch(r"\d+", rate) for rate in rates):
            expected = f"NVLinkBandwidth of {len(ends)} objects, and {len(ends) ** 2} numbers were expected"
            self.fail(element, f"{expected}; it has {len(rates)}")
        return ends, list(map(int, rates))
