"""Reader for the topology in Linux's /sys and /proc."""

import re
from collections.abc import Sequence
from pathlib import Path

from course.machine.error import TopologyError
from course.machine.graph import Topology
from course.machine.parts import CACHES, Device, processors
from course.machine.pci import ACCELERATOR, INTEL, NVIDIA, Function, address, devices, kind_of
from ddl.records.machine import processor_model

RATES = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}  # GT/s to PCIe generation


def read(root: str | Path = "/", name: str = "here") -> Topology:
    """Read the topology from the /sys and /proc under `root`, and call it `name`.

    Raises TopologyError if a file cannot be understood, or there is no list of processors.
    """
    root = Path(root)
    cpu = root / "sys/devices/system/cpu"
    online = _numbers(cpu / "online")
    if not online:
        raise TopologyError.at(cpu / "online", None, "it lists no processors; expected a list such as 0-3")
    notes = []
    nodes = _nodes(root)
    if not nodes:
        notes.append("the kernel reports no NUMA nodes: all memory counts as one")
        nodes = {0: (frozenset(online), _memory(root / "proc/meminfo"))}
    packages, cores, model = {}, {}, processor_model(root / "proc")
    for thread in sorted(online):
        topology = cpu / f"cpu{thread}/topology"
        package = max(_number(topology / "physical_package_id", 0), 0)
        packages.setdefault(package, (model, set()))[1].add(thread)
        siblings = _numbers(topology / "core_cpus_list") or _numbers(topology / "thread_siblings_list") or {thread}
        cores.setdefault((package, min(siblings & online, default=thread)), set()).add(thread)
    return Topology(
        name,
        "measured here by /sys and /proc",
        **processors(packages, nodes, cores.values(), _caches(cpu, online)),
        devices=devices(functions(root, sorted(nodes))),
        notes=(*notes, *_left_out(root)),
    )


def _nodes(root):
    """{number: (its threads, its memory in bytes)}"""
    return {
        int(folder.name[4:]): (frozenset(_numbers(folder / "cpulist")), _memory(folder / "meminfo"))
        for folder in (root / "sys/devices/system/node").glob("node[0-9]*")
    }


def _caches(cpu, online):
    for thread in sorted(online):
        for folder in (cpu / f"cpu{thread}/cache").glob("index[0-9]*"):
            kind, text = _text(folder / "type").lower(), _text(folder / "size")
            if kind not in CACHES or not text:
                continue
            match = re.fullmatch(r"(\d+)([KMG]?)", text)
            if not match:
                raise TopologyError.at(folder / "size", 1, f"{text!r} is not a size such as 32K")
            size = int(match[1]) * 1024 ** " KMG".index(match[2] or " ")
            yield _number(folder / "level", 0), kind, size, _numbers(folder / "shared_cpu_list") or {thread}


def functions(root: str | Path = "/", nodes: Sequence[int] = ()) -> list[Function]:
    """Return the PCI functions in /sys, bridges included.

    `nodes` are the numbers of the NUMA nodes; a single one holds all devices, regardless of the firmware.
    """
    found = []
    for link, pci_class, vendor in _pci(root):
        folder = link.resolve()
        chain = [part for part in folder.parts if address(part)]
        host = next(
            (match[1] for part in folder.parts if (match := re.fullmatch(r"pci([0-9a-f]{4,8}:[0-9a-f]{2})", part))), ""
        )
        numa = _number(folder / "numa_node", -1)
        generation, width = _link([folder, folder.parent] if len(chain) > 1 else [folder])
        card, disk = _network_card(folder), _first(folder, "block")
        kind = kind_of(pci_class, vendor)
        facts = {
            "kind": kind or ("nic" if card else "disk" if disk else "other"),
            "name": disk,
            "numa": nodes[0] if len(nodes) == 1 else numa if numa >= 0 else None,
            "address": link.name,
            "generation": generation,
            "width": width,
        }
        found.append(Function(Device(**facts | card), host, tuple(chain[:-1])))
    return found


def _left_out(root):
    """Yield a note on accelerators that are neither GPUs nor units of an Intel laptop, such as FPGAs."""
    found = [
        link.name
        for link, kind, vendor in _pci(root)
        if kind >> 8 == ACCELERATOR and vendor != INTEL and not kind_of(kind, vendor)
    ]
    if found:
        yield f"accelerators that are not GPUs were left out: {', '.join(found)}"


def has_nvidia_gpus(root: str | Path = "/") -> bool:
    """Return whether /sys lists a GPU of NVIDIA's."""
    return any(vendor == NVIDIA and kind_of(kind, vendor) == "gpu" for _, kind, vendor in _pci(root))


def _pci(root):
    """Yield the link, the 16-bit class and the vendor of each PCI function."""
    for link in sorted((Path(root) / "sys/bus/pci/devices").glob("*")):
        if address(link.name):
            yield link, _number(link / "class", 0) >> 8, _number(link / "vendor", 0)


def _link(folders):
    """Generation and width that both ends of the link support."""
    ends = []
    for folder in folders:
        rate = re.fullmatch(r"(\d+(?:\.\d+)?)(?: .*)?", _text(folder / "max_link_speed"))
        generation = RATES.get(float(rate[1])) if rate else None
        width = _number(folder / "max_link_width", 0)
        if generation and 0 < width < 64:  # virtual devices report 255
            ends.append((generation, width))
    return tuple(map(min, zip(*ends, strict=True))) if ends else (None, None)


def _network_card(folder):
    """Return the name, network and Gbit/s of a network card, as `Device` fields; empty for others."""
    interface, infiniband = _first(folder, "net"), _first(folder, "infiniband")
    if infiniband:
        ports = sorted(folder.glob("infiniband/*/ports/*"))
        rates = [match[1] for port in ports if (match := re.match(r"([\d.]+) Gb/sec", _text(port / "rate")))]
        network = (_text(ports[0] / "link_layer") if ports else "") or "InfiniBand"
        return {"name": infiniband, "network": network, "gbit_per_s": max(map(float, rates), default=None)}
    if not interface:
        return {}
    path = min([*folder.glob("net/*"), *folder.glob("virtio*/net/*")])
    mbit_per_s = _number(path / "speed", -1)
    return {"name": interface, "network": "Ethernet", "gbit_per_s": mbit_per_s / 1000 if mbit_per_s > 0 else None}


def _first(folder, kind):
    """Name of a function's first device of a kind, virtual ones and NVMe disks included."""
    found = [
        *folder.glob(f"{kind}/*"),
        *folder.glob(f"virtio*/{kind}/*"),
        *folder.glob(f"nvme/nvme*/{'nvme*n*' if kind == 'block' else 'none'}"),
    ]
    return min((path.name for path in found), default="")


def _memory(path):
    match = re.search(r"MemTotal:\s*(\d+) kB", _text(path))
    return int(match[1]) * 1024 if match else None


def _text(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # missing, forbidden or a driver error


def _number(path, otherwise):
    text = _text(path)
    if not text:
        return otherwise
    try:
        return int(text, 0)
    except ValueError:
        raise TopologyError.at(path, 1, f"{text[:40]!r} is not a number") from None


def _numbers(path):
    return numbers(_text(path), path)


def numbers(text, file, line=1):
    """Return the set of numbers in a list in the kernel's format: ``0-3,8``."""
    found = set()
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise TopologyError.at(file, line, f"{text[:60]!r} is not a list of numbers such as 0-3,8")
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    return found
