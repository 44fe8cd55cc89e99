"""Reading the matrix that ``nvidia-smi topo -m`` prints, of any of its generations.

The matrix says how far any two of GPUs and network cards are from each other, and not what lies
between them: the tree is the simplest one that gives such a matrix. NVLinks hide how far apart two
GPUs are on PCIe; the network cards beside them often tell.
"""

import re
from dataclasses import dataclass

from ddl.topology.error import TopologyError
from ddl.topology.graph import Device, Numa, NvLink, Topology
from ddl.topology.sysfs import numbers

__all__ = ["Matrix", "looks_like", "parse", "read_matrix", "tree"]

ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
DEVICE = re.compile(r"[A-Za-z]\w*(-\w+)*")
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
OLD = {"SOC": "SYS"}  # what drivers before NODE was told apart called it
# No GPU has more NVLinks than this: a row that adds up to more is one of an NVSwitch.
MOST_NVLINKS = 18


@dataclass(frozen=True)
class Matrix:
    """What the text says.

    Attributes
    ----------
    names : tuple of str
        GPUs and network cards, these by the names of the "NIC Legend".
    kinds : dict of (str, str) to str
        "X", "NV#", "PIX", "PXB", "PHB", "NODE" or "SYS".
    threads, numas : dict of str to tuple of int
        Of GPUs: processor threads and NUMA nodes that are near. Missing where it is not said.
    """

    names: tuple
    kinds: dict
    threads: dict
    numas: dict


def looks_like(text):
    """Whether a text has a line that begins such a matrix."""
    return any(_header(ESCAPES.sub("", line)) for line in text.splitlines())


def parse(text, name="nvidia-smi", file="nvidia-smi topo -m"):
    """Read the matrix, and make the topology of it that it allows.

    Parameters
    ----------
    text : str
        All that the tool printed; what stands before the matrix is left aside.
    name : str
        What the machine shall be called.
    file : str
        For errors.

    Returns
    -------
    Topology
        Its `notes` say what the matrix leaves open, and where a tree cannot give it.

    Raises
    ------
    TopologyError
        Names the line, and says what was expected.
    """
    matrix = read_matrix(text, file)
    topology = tree(matrix, name)
    other = [pair for pair, kind in matrix.kinds.items()
             if pair[0] < pair[1] and topology.kind(*pair) != kind]
    if not other:
        return topology
    a, b = other[0]
    note = (f"{len(other)} of the matrix's pairs fit no tree, {a} and {b} for one: it says "
            f"{matrix.kinds[a, b]}, the tree {topology.kind(a, b)}")
    return tree(matrix, name, (note,))


def read_matrix(text, file="nvidia-smi topo -m"):
    """Read the matrix as it stands; see `parse` for the arguments and errors.

    Returns
    -------
    Matrix
    """
    lines = [ESCAPES.sub("", line).rstrip("\r") for line in text.splitlines()]
    start = next((at for at, line in enumerate(lines) if _header(line)), None)
    if start is None:
        raise TopologyError.at(file, None, "no line of it begins a matrix; expected one like "
                                           "“GPU0  GPU1  …  CPU Affinity”")
    names, extra = _header(lines[start])
    if len(set(names)) < len(names):
        raise TopologyError.at(file, start + 1, "a device stands twice in the heading")
    rows, threads, numas, renamed = {}, {}, {}, {}
    for number, line in enumerate(lines[start + 1:], start + 2):
        first = line.split()[:1]
        if first and first[0] in names and len(rows) < len(names):
            row = first[0]
            if row in rows:
                raise TopologyError.at(file, number, f"a second row of {row}")
            rows[row], rest = _row(line, names, file, number)
            _affinity(row, rest, extra, threads, numas, file, number)
        elif match := re.match(r"\s*(NIC\d+)\s*:\s*(\S+)\s*$", line):
            renamed[match[1]] = match[2]
        elif first and len(rows) < len(names):
            raise TopologyError.at(file, number, f"{line.strip()[:60]!r}, and a row of one of "
                                   f"{', '.join(n for n in names if n not in rows)} was expected")
    if missing := [name for name in names if name not in rows]:
        raise TopologyError.at(file, len(lines), f"it ends without a row of {', '.join(missing)}")
    called = {name: renamed.get(name, name) for name in names}
    kinds = {(called[a], called[b]): cell for a in names
             for b, cell in zip(names, rows[a], strict=True)}
    for (a, b), kind in kinds.items():
        if (kind == "X") != (a == b) or kinds[b, a] != kind:
            raise TopologyError.at(file, start + 1, f"{a} to {b} is {kind}, and {b} to {a} is "
                                   f"{kinds[b, a]}: expected the same, and X on the diagonal only")
    return Matrix(tuple(called.values()), kinds, threads, numas)


def _header(line):
    """Names of the devices and of the further columns; None if the line is no heading."""
    names, _, extra = " ".join(line.split()).partition(" CPU ")
    names = names.split()
    # A row of GPU0 begins with it, too, and has an X.
    if names[:1] != ["GPU0"] or "X" in names or not all(map(DEVICE.fullmatch, names)):
        return None
    return names, [column for column in COLUMNS if column in f"CPU {extra}"]


def _row(line, names, file, number):
    """Cells of a row, and the text after them."""
    cells, words = [], re.compile(r"\s*(\S*)")
    at = words.match(line).end()
    for column in names:
        match = words.match(line, at)
        cell, at = OLD.get(match[1], match[1]), match.end()
        if not (cell == "X" or cell in DISTANCES or re.fullmatch(r"NV[1-9]\d*", cell)):
            raise TopologyError.at(file, number, f"{cell!r} under {column}; expected X, NV# or one "
                                                 f"of {', '.join(DISTANCES)}")
        cells.append(cell)
    return cells, re.sub(r"^ *\t?", "", line[at:])


def _affinity(name, rest, extra, threads, numas, file, number):
    if not name.startswith("GPU"):
        return
    # The tool puts tabs between columns, of which the first may be empty; pasted text has spaces.
    fields = [field.strip() for field in rest.split("\t")] if "\t" in rest else rest.split()
    if "CPU Affinity" in extra and fields:
        threads[name] = _numbers(fields.pop(0), file, number)
    fields = [field for field in fields if field]
    if "NUMA Affinity" in extra and fields:
        numas[name] = _numbers(fields.pop(0), file, number)
    for table in (threads, numas):
        if not table.get(name):
            table.pop(name, None)


def _numbers(text, file, number):
    """Numbers as the tool lists them: ``0-3,8``; none for an empty text and for N/A."""
    listed = ",".join(part for part in text.split(",") if part.strip() not in ("N/A", "all"))
    return tuple(sorted(numbers(listed, file, number)))


# ---------------------------------------------------------------- the simplest tree


def tree(matrix, name, notes=()):
    """Return the simplest topology that gives a matrix.

    Parameters
    ----------
    matrix : Matrix
    name : str
    notes : sequence of str
        To begin its notes with.

    Returns
    -------
    Topology
    """
    gpus = [device for device in matrix.names if device.startswith("GPU")]
    devices, nodes, notes = [], [], list(notes)
    numas = _numa_numbers(matrix, notes)
    for numa, group in zip(numas, _groups(matrix, "NODE"), strict=True):
        near = next((matrix.threads[name] for name in group if name in matrix.threads), ())
        nodes.append(Numa(numa, None, threads=near))
        for at, root in enumerate(_groups(matrix, "PHB", group)):
            top = f"root{numa}.{at}"
            devices.append(Device(top, "root", numa=numa))
            devices += _below(matrix, root, top)
    # What others count by their order, GPUs above all, keeps that of the matrix.
    devices.sort(key=lambda device: matrix.names.index(device.name)
                 if device.name in matrix.names else -1)
    links, switches = _nvlinks(matrix, gpus)
    notes += ["made from a matrix: links' rates, models, memory, cores and sockets "
              "are not known"]
    if hidden := [(a, b) for a in gpus for b in gpus if a < b
                  and matrix.kinds[a, b].startswith("NV")]:
        notes.append(f"how far apart {hidden[0][0]} and {hidden[0][1]}"
                     f"{' and other pairs' * (len(hidden) > 1)} are on PCIe is hidden by NVLinks")
    return Topology(name, "read from nvidia-smi topo -m", numas=tuple(nodes),
                    devices=(*devices, *switches), nvlinks=links, notes=tuple(notes))


def _numa_numbers(matrix, notes):
    """Number of each group of devices that are in one NUMA node: the matrix's where it says so."""
    groups = _groups(matrix, "NODE")
    said = [{numa for name in group for numa in matrix.numas.get(name, ())} for group in groups]
    numbers = [own.pop() if len(own) == 1 else None for own in map(set, said)]
    numbers = [number if numbers.count(number) == 1 else None for number in numbers]
    free = (number for number in range(len(groups) + max([-1, *filter(None, numbers)]) + 1)
            if number not in numbers)
    if None in numbers:
        notes.append("the matrix does not tell the number of each NUMA node: those are counted")
    return [next(free) if number is None else number for number in numbers]


def _groups(matrix, furthest, among=None):
    """Devices no further from each other than that, each group in the order of the matrix."""
    among = list(among or matrix.names)
    near = DISTANCES[: DISTANCES.index(furthest) + 1]
    groups = []
    for device in among:
        joined = [group for group in groups
                  if any(_near(matrix, device, other, near, furthest) for other in group)]
        for group in joined:
            groups.remove(group)
        groups.append([*(other for group in joined for other in group), device])
    return sorted((sorted(group, key=among.index) for group in groups),
                  key=lambda group: among.index(group[0]))


def _near(matrix, a, b, near, furthest):
    kind = matrix.kinds[a, b]
    if kind.startswith("NV"):  # which hides the rest; but a NUMA node in common is told
        return furthest == "NODE" and a in matrix.numas and matrix.numas[a] == matrix.numas.get(b)
    return kind in near


def _below(matrix, group, top):
    """Devices under one root complex: outer switches, inner ones, GPUs and cards."""
    for outer, members in enumerate(_groups(matrix, "PXB", group)):
        inner = _groups(matrix, "PIX", members)
        above = top
        if len(inner) > 1:
            above = f"{top}.switch{outer}"
            yield Device(above, "switch", under=top)
        for at, closest in enumerate(inner):
            under = above
            if len(closest) > 1 or len(inner) > 1:
                under = f"{top}.switch{outer}.{at}"
                yield Device(under, "switch", under=above)
            for name in closest:
                yield Device(name, "gpu" if name.startswith("GPU") else "nic", under=under)


def _nvlinks(matrix, gpus):
    counts = {(a, b): int(matrix.kinds[a, b][2:]) for at, a in enumerate(gpus)
              for b in gpus[at + 1:] if matrix.kinds[a, b].startswith("NV")}
    of = {gpu: [count for pair, count in counts.items() if gpu in pair] for gpu in gpus}
    switched = any(sum(own) > MOST_NVLINKS for own in of.values())
    if not switched:
        return tuple(NvLink(a, b, count) for (a, b), count in counts.items()), ()
    return (tuple(NvLink(gpu, "NVSwitch", max(own)) for gpu, own in of.items() if own),
            (Device("NVSwitch", "nvswitch"),))
