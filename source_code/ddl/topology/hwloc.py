"""Reading the XML that hwloc's ``lstopo --of xml`` writes, of its versions 1 and 2.

Version 1 puts NUMA nodes above sockets or below them and a machine's only memory nowhere; version 2
puts them beside what they are near to. Both say of each object which processors it belongs to, and
that is what is read here.
"""

import re
import shutil
import subprocess
from xml.parsers import expat

from ddl.topology.error import TopologyError
from ddl.topology.graph import Cache, Core, Numa, Socket, Topology
from ddl.topology.pci import Function, address, devices

__all__ = ["ask", "parse"]

KINDS = {"0": "unified", "1": "data", "2": "instruction"}
DISK, NETWORK, INFINIBAND = "0", "2", "3"  # osdev_type


class Element:
    """An element of the file, with the line that it begins in."""

    def __init__(self, tag, attributes, line):
        self.tag, self.attributes, self.line = tag, attributes, line
        self.children = []

    def walk(self, *above):
        """This object and all below it, each with the objects that it is in."""
        yield self, above
        for child in self.children:
            if child.tag == "object":
                yield from child.walk(*above, self)

    def info(self, name):
        return next((child.attributes.get("value", "") for child in self.children
                     if child.tag == "info" and child.attributes.get("name") == name), "")


def parse(text, name="hwloc", file="lstopo --of xml"):
    """Read a topology.

    Parameters
    ----------
    text : str or bytes
    name : str
        What the machine shall be called.
    file : str
        For errors.

    Returns
    -------
    Topology

    Raises
    ------
    TopologyError
        Names the line, and says what was expected.
    """
    return _Reader(_elements(text, file), file).topology(name)


def ask():
    """Return what hwloc writes of this machine, or None where it is not installed."""
    command = shutil.which("lstopo-no-graphics") or shutil.which("lstopo")
    if not command:
        return None
    # Version 1 calls it --whole-system to show what this process may not use, too.
    for everything in ("--disallowed", "--whole-system"):
        try:
            done = subprocess.run([command, "--of", "xml", "--whole-io", everything],
                                  capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode == 0 and done.stdout:
            return done.stdout
    return None


def _elements(text, file):
    parser, stack, tops = expat.ParserCreate(), [], []

    def start(tag, attributes):
        element = Element(tag, attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else tops).append(element)
        stack.append(element)

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: stack.pop()
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        problem = f"this is no XML: {expat.errors.messages[error.code]}"
        raise TopologyError.at(file, error.lineno, problem) from error
    if tops[0].tag != "topology":
        raise TopologyError.at(file, tops[0].line, f"<{tops[0].tag}>, and hwloc's <topology> was "
                                                   "expected")
    machine = [child for child in tops[0].children if child.tag == "object"]
    if len(machine) != 1:
        raise TopologyError.at(file, tops[0].line, f"<topology> holds {len(machine)} <object>, and "
                                                   "one of type Machine was expected")
    return machine[0]


class _Reader:
    def __init__(self, machine, file):
        self.file = file
        self.objects = list(machine.walk())
        self.machine = machine

    def fail(self, element, problem):
        raise TopologyError.at(self.file, element.line, problem)

    def attribute(self, element, name):
        value = element.attributes.get(name)
        if value is None:
            self.fail(element, f"a <{element.tag}> of type {element.attributes.get('type', '?')} "
                               f"lacks {name}")
        return value

    def number(self, element, name):
        value = self.attribute(element, name)
        if not re.fullmatch(r"\d+", value):
            self.fail(element, f"{name}={value!r}, and a number was expected")
        return int(value)

    def cpuset(self, element):
        """Processors of an object, from ``0x0000ffff,,0xffffffff``: 32 of them a word."""
        text = self.attribute(element, "cpuset")
        bits = 0
        for word in text.split(","):
            if word and not re.fullmatch(r"0x[0-9a-f]{1,8}", word):
                self.fail(element, f"cpuset={text!r}, and words like 0x0000ffff were expected")
            bits = bits << 32 | int(word or "0", 16)
        return frozenset(at for at in range(bits.bit_length()) if bits >> at & 1)

    def of(self, *types):
        return [(element, above) for element, above in self.objects
                if self.attribute(element, "type") in types]

    def topology(self, name):
        packages = {self.number(element, "os_index"): (element, self.cpuset(element))
                    for element, _ in self.of("Package", "Socket")}
        packages = packages or {0: (self.machine, self.cpuset(self.machine))}
        numas = {self.number(element, "os_index"): (self.cpuset(element), self.memory(element))
                 for element, _ in self.of("NUMANode", "Node")}
        numas = numas or {0: (self.cpuset(self.machine), self.memory(self.machine))}
        package_of = {cpu: number for number, (_, cpus) in packages.items() for cpu in cpus}
        numa_of = {cpu: number for number in sorted(numas, reverse=True)
                   for cpu in numas[number][0]}
        cores = {}
        for element, above in self.of("PU"):
            thread = self.number(element, "os_index")
            core = next((a for a in above if a.attributes["type"] == "Core"), element)
            cores.setdefault(id(core), set()).add(thread)
        if not cores:
            self.fail(self.machine, "it holds no processor (an <object> of type PU)")
        ordered = sorted((package_of.get(min(own), min(packages)), sorted(own))
                         for own in cores.values())
        number_of = {thread: at for at, (_, own) in enumerate(ordered) for thread in own}
        return Topology(
            name, "measured by hwloc",
            sockets=tuple(Socket(number, element.info("CPUModel") or self.machine.info("CPUModel"))
                          for number, (element, _) in sorted(packages.items())),
            numas=tuple(Numa(number, package_of.get(min(cpus, default=-1), min(packages)), memory)
                        for number, (cpus, memory) in sorted(numas.items())),
            cores=tuple(Core(at, package, numa_of.get(own[0], min(numas)), tuple(own))
                        for at, (package, own) in enumerate(ordered)),
            caches=tuple(sorted({
                cache for element, _ in self.objects if (cache := self.cache(element, number_of))
            })),
            devices=devices(self.functions(numas)))

    def memory(self, element):
        known = "local_memory" in element.attributes
        return self.number(element, "local_memory") if known else None

    def cache(self, element, number_of):
        if not re.fullmatch(r"(L\di?)?Cache", element.attributes["type"]):
            return None
        kind = self.attribute(element, "cache_type")
        if kind not in KINDS:
            self.fail(element, f"cache_type={kind!r}, and one of {', '.join(KINDS)} was expected")
        cores = {number_of[cpu] for cpu in self.cpuset(element) if cpu in number_of}
        return Cache(self.number(element, "depth"), KINDS[kind], self.number(element, "cache_size"),
                     tuple(sorted(cores)))

    def functions(self, numas):
        """PCI devices and bridges; their NUMA node is that of the object that they hang below."""
        for element, above in self.objects:
            kind = element.attributes["type"]
            if kind == "Bridge" and self.attribute(element, "bridge_type") not in ("0-1", "1-1"):
                self.fail(element, "bridge_type=0-1 (host to PCI) or 1-1 (PCI to PCI) was expected")
            if kind == "PCIDev" or kind == "Bridge" and "pci_busid" in element.attributes:
                yield self.function(element, above, numas)

    def function(self, element, above, numas):
        busid = self.attribute(element, "pci_busid")
        at = address(busid)
        if not at:
            self.fail(element, f"pci_busid={busid!r}, and one like 0000:81:00.0 was expected")
        match = re.match(r"([0-9a-f]{4}) \[([0-9a-f]{4}):", self.attribute(element, "pci_type"))
        if not match:
            self.fail(element, f"pci_type={element.attributes['pci_type']!r}, and a class and "
                               "[vendor:device] were expected")
        bridges = [a for a in above if a.attributes["type"] == "Bridge"]
        near = next((self.cpuset(a) for a in reversed(above) if "cpuset" in a.attributes),
                    frozenset())
        touching = [number for number, (cpus, _) in numas.items() if cpus & near]
        numa = next(iter(numas)) if len(numas) == 1 else touching[0] if len(touching) == 1 else None
        named = {} if element.attributes["type"] == "Bridge" else self.named(element)
        network = "InfiniBand" if INFINIBAND in named else "Ethernet" if NETWORK in named else ""
        return Function(
            at, next(filter(None, map(self.host, bridges)), ""),
            tuple(address(a.attributes["pci_busid"]) or "" for a in bridges
                  if "pci_busid" in a.attributes),
            int(match[1], 16), int(match[2], 16), numa, element.info("PCIDevice"),
            gb_per_s=self.link(element), nic=named.get(INFINIBAND) or named.get(NETWORK, ""),
            disk=named.get(DISK, ""), network=network)

    def host(self, bridge):
        """Domain and bus that a host bridge leads to, from ``0000:[80-9f]``."""
        text = bridge.attributes.get("bridge_pci", "")
        match = re.match(r"([0-9a-f]{4,8}:)\[([0-9a-f]{2})-", text)
        return match[1] + match[2] if match and bridge.attributes["bridge_type"] == "0-1" else ""

    def named(self, device):
        """{kind: name} of what the system makes of a PCI device."""
        names = {}
        for element, _ in device.walk():
            if element.attributes["type"] == "OSDev":
                names.setdefault(element.attributes.get("osdev_type"),
                                 self.attribute(element, "name"))
        return names

    def link(self, element):
        speed = element.attributes.get("pci_link_speed", "0")
        try:
            return float(speed) or None
        except ValueError:
            self.fail(element, f"pci_link_speed={speed!r}, and GB/s were expected")
