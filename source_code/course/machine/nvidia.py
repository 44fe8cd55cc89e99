"""Reader for the matrix of ``nvidia-smi topo -m``, as any driver generation prints it.

The matrix has the distances between GPUs and network cards, but not the switches: the tree is the simplest one with
this matrix. NVLinks hide the PCIe distance of two GPUs, which nearby network cards often reveal. NUMA nodes come from
the columns, not from distances: a virtual machine has one node and reports all its GPUs as far apart.
"""

import itertools
import math
import re
from dataclasses import dataclass, replace

from course.machine.error import TopologyError
from course.machine.graph import Device, Numa, NvLink, Topology
from course.machine.sysfs import numbers
from ddl.text import plural

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # the tool underlines the heading
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
CELL = re.compile(rf"X|C2C|SOC|{'|'.join(DISTANCES)}|NV[1-9]\d*")
OLD = {"SOC": "SYS"}  # its name in drivers before NODE
OF_PROCESSORS = re.compile("(CPU|NUMA) Affinity|GPU NUMA ID")  # headings of the columns after the devices
MOST_NVLINKS = 18  # per GPU: a row with a larger sum goes through an NVSwitch
GRACE_NODES = 8  # a longer list of NUMA nodes is Grace's: the processor's node, then those of the GPU's memory


@dataclass(frozen=True)
class Matrix:
    """The content of the text."""

    names: tuple[str, ...]  # GPUs and network cards, the latter named by the "NIC Legend"
    kinds: dict[tuple[str, str], str]  # "X", "NV#", "PIX", "PXB", "PHB", "NODE" or "SYS"
    threads: dict[str, tuple[int, ...]]  # processor threads near each GPU, where given
    numas: dict[str, tuple[int, ...]]  # NUMA nodes near each GPU, where given


def parse(text: str, name: str = "nvidia-smi", file: str = "nvidia-smi topo -m") -> Topology:
    """Read the matrix and build a topology from it, called `name`.

    `text` is the tool's output; anything before the matrix is ignored. The topology's `notes` list what the matrix
    leaves open, and where no tree fits it. Raises TopologyError with `file` and line.
    """
    return tree(read_matrix(text, file), name)


def read_matrix(text: str, file: str = "nvidia-smi topo -m") -> Matrix:
    """Read the matrix without building a tree; arguments and errors as in `parse`."""
    lines = [ESCAPES.sub("", line) for line in text.splitlines()]
    starts = [at for at, line in enumerate(lines) if line.split()[:1] == ["GPU0"] and " X " not in line]
    if not starts:
        raise TopologyError.at(file, None, "it has no matrix heading, such as “GPU0  GPU1  …  CPU Affinity”")
    heading = lines[starts[0]]
    names = OF_PROCESSORS.split(heading)[0].split()
    if len(set(names)) < len(names):
        raise TopologyError.at(file, starts[0] + 1, "a device is named twice in the heading")
    first = starts[0] + 2  # the number of the first row's line
    kinds, threads, numas = {}, {}, {}
    for number, name in enumerate(names, first):
        line = lines[number - 1] if number <= len(lines) else ""
        words = [word.strip() for word in (line.split("\t") if "\t" in line else line.split())]
        if words[:1] != [name]:
            raise TopologyError.at(file, number, f"{line.strip()[:60]!r} instead of a row of {name}")
        cells, rest = words[1 : len(names) + 1], words[len(names) + 1 :]
        for other, cell in itertools.zip_longest(names, cells, fillvalue=""):
            if not CELL.fullmatch(cell):
                raise TopologyError.at(
                    file, number, f"{cell!r} under {other}; expected X, NV# or one of {', '.join(DISTANCES)}"
                )
            kinds[name, other] = OLD.get(cell, cell)
        if name.startswith("GPU"):
            rest = rest[:1] + [field for field in rest[1:] if field]  # an empty processor column keeps its place
            for column, field in zip((threads, numas), rest, strict=False):
                if found := _numbers(field, file, number):
                    column[name] = found
    if "NUMA Affinity" not in heading:
        numas = {}
    for (a, b), kind in kinds.items():
        if (kind == "X") != (a == b) or kinds[b, a] != kind:
            raise TopologyError.at(
                file,
                first - 1,
                f"{a} to {b} is {kind}, and {b} to {a} is {kinds[b, a]}: expected the same, and X on the diagonal only",
            )
    legend = dict(re.findall(r"^\s*(NIC\d+)\s*:\s*(\S+)\s*$", text, re.MULTILINE))
    called = {name: legend.get(name, name) for name in names}
    return Matrix(
        tuple(called.values()),
        {(called[a], called[b]): kind for (a, b), kind in kinds.items()},
        threads,
        {name: nodes[:1] if len(nodes) >= GRACE_NODES else nodes for name, nodes in numas.items()},
    )


def _numbers(text, file, number):
    """Return the numbers in a list such as ``0-3,8``; none for empty text or N/A."""
    listed = ",".join(part for part in text.split(",") if part.strip() not in ("N/A", "all"))
    return tuple(sorted(numbers(listed, file, number)))


# ---------------------------------------------------------------- the simplest tree


def tree(matrix: Matrix, name: str) -> Topology:
    """Return the simplest topology with this matrix; `reported` has the pairs that fit no tree."""
    near, threads, notes = _numas(matrix)
    devices = []
    for number, group in enumerate(_groups(matrix, "PHB")):
        numa = next((near[name] for name in group if name in near), None)
        devices.append(Device(f"root{number}", "root", numa=numa))
        devices += [
            replace(device, numa=near[device.name]) if near.get(device.name, numa) != numa else device
            for device in _below(matrix, group, f"root{number}")
        ]
    # GPUs and cards are counted in the matrix's order.
    devices.sort(key=lambda device: matrix.names.index(device.name) if device.name in matrix.names else -1)
    links, switches = _nvlinks(matrix)
    notes.append("made from a matrix: links' rates, models, memory, cores and sockets are unknown")
    if links:
        pairs = math.comb(sum(device.kind == "gpu" for device in devices), 2)
        alike = not switches and len(links) == pairs and len({link.count for link in links}) == 1
        hidden = ", and may pass through an NVSwitch" if alike else ""
        notes.append(f"NVLinks hide how far apart GPUs are on PCIe{hidden}")
    topology = Topology(
        name,
        "read from nvidia-smi topo -m",
        devices=(*devices, *switches),
        nvlinks=links,
        numas=tuple(Numa(numa, None, threads=threads[numa]) for numa in sorted(threads)),
    )
    reported = {pair: kind for pair, kind in matrix.kinds.items() if topology.kind(*pair) != kind}
    apart = [(a, b) for a, b in reported if a < b and topology.kind(a, b) != "?"]
    if apart:
        a, b = apart[0]
        note = f"{a} and {b} are {reported[a, b]} apart, and in the tree {topology.kind(a, b)}"
        notes.insert(0, f"{note}: {plural(len(apart), 'pair')} of the matrix fit no tree")
    return replace(topology, reported=reported, notes=tuple(notes))


def _numas(matrix):
    """Return the NUMA nodes from the matrix's columns: {device: node} if known, {node: threads}, and notes.

    Without numbers, GPUs near the same processor threads share a node. A device without these columns, such as a
    network card, gets the node of the nearest device that is closer than SYS.
    """
    near = {name: nodes[0] for name, nodes in matrix.numas.items() if len(nodes) == 1}
    notes = []
    for shared in sorted(set(matrix.threads.values())):
        names = [name for name, threads in matrix.threads.items() if threads == shared]
        known = sorted({near[name] for name in names if name in near})
        unplaced = [name for name in names if name not in matrix.numas]
        if unplaced and not known:
            known = [next(number for number in range(len(matrix.names) + 1) if number not in near.values())]
            notes = ["the matrix does not number the NUMA nodes: they are counted from 0"]
        near |= {name: known[0] for name in unplaced if len(known) == 1}
    threads = dict.fromkeys(near.values(), ())
    for name in reversed([name for name in matrix.threads if name in near]):
        threads[near[name]] = matrix.threads[name]
    while found := {
        name: near[other] for name in matrix.names if name not in near and (other := _nearest(matrix, name, near))
    }:
        near |= found
    if unplaced := [name for name in matrix.names if name not in near]:
        verb = "are" if len(unplaced) > 1 else "is"
        notes.append(f"the matrix does not say which NUMA node {', '.join(unplaced)} {verb} near to")
    return near, threads, notes


def _nearest(matrix, name, among):
    """Return the device in `among` that is nearest on PCIe, if closer than SYS, else None."""
    others = [other for other in matrix.names if other in among and matrix.kinds[name, other] in DISTANCES[:-1]]
    return min(others, key=lambda other: DISTANCES.index(matrix.kinds[name, other]), default=None)


def _groups(matrix, furthest, among=None):
    """Group devices no farther apart than `furthest`, in the matrix's order."""
    among = list(among or matrix.names)
    near = DISTANCES[: DISTANCES.index(furthest) + 1]
    groups = []
    for device in among:
        joined = [group for group in groups if any(matrix.kinds[device, other] in near for other in group)]
        for group in joined:
            groups.remove(group)
        groups.append([*(other for group in joined for other in group), device])
    return sorted((sorted(group, key=among.index) for group in groups), key=lambda group: among.index(group[0]))


def _below(matrix, group, top):
    """Devices under one root complex: outer switches, inner ones, GPUs and cards."""
    for outer, members in enumerate(_groups(matrix, "PXB", group)):
        inner = _groups(matrix, "PIX", members)
        above = top
        if len(inner) > 1:
            above = f"{top}.switch{outer}"
            yield Device(above, "switch", under=top)
        for number, closest in enumerate(inner):
            under = above
            if len(closest) > 1 or len(inner) > 1:
                under = f"{top}.switch{outer}.{number}"
                yield Device(under, "switch", under=above)
            for name in closest:
                yield Device(name, "gpu" if name.startswith("GPU") else "nic", under=under)


def _nvlinks(matrix):
    """Return NVLinks, and an NVSwitch if a GPU would otherwise have too many."""
    gpus = [device for device in matrix.names if device.startswith("GPU")]
    pairs = itertools.combinations(gpus, 2)
    counts = {pair: int(matrix.kinds[pair][2:]) for pair in pairs if matrix.kinds[pair].startswith("NV")}
    rows = {gpu: [count for pair, count in counts.items() if gpu in pair] for gpu in gpus}
    if all(sum(row) <= MOST_NVLINKS for row in rows.values()):
        return tuple(NvLink(a, b, count) for (a, b), count in counts.items()), ()
    links = tuple(NvLink(gpu, "NVSwitch", max(row)) for gpu, row in rows.items() if row)
    return links, (Device("NVSwitch", "nvswitch"),)
