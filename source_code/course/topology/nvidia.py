"""Reader for the matrix of ``nvidia-smi topo -m``, of any driver generation.

The matrix has the distances between GPUs and network cards, but not the switches: the tree is the simplest one with
this matrix. NVLinks hide the PCIe distance of two GPUs, which nearby network cards often reveal. NUMA nodes come from
the columns, not from distances: a virtual machine has one node and reports all its GPUs as far apart.

The text is seldom verbatim: it may be quoted from a mail, wrapped, or without the escape bytes of its heading.
"""

import html
import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass, replace

from course.topology.error import TopologyError
from course.topology.graph import Device, Numa, NvLink, Topology
from course.topology.sysfs import numbers
from ddl.text import plural

# Colors and underlines; the escape byte may be lost or spelled out.
ESCAPES = re.compile(
    r"(?:\x1b|\x9b|[␛←\ufffd]|\^\[|\\(?:x1b|u001b|033|e))?\[[0-9;?]*[mK]"
    r"|\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9])"
)
MARKS = str.maketrans(
    {"\ufeff": "", "\u200b": "", "\xa0": " ", **dict.fromkeys("|│┃", " "), **dict.fromkeys("‐‑‒–—−", "-")}
)
TAGS = re.compile(r"</?[A-Za-z][^<>]*>")
QUOTES = re.compile(r"^\s*(?:> ?)+")
DEVICE = re.compile(r"[A-Za-z][\w.]*(-[\w.]+)*")
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")
CELL = re.compile(rf"X|C2C|SOC|{'|'.join(DISTANCES)}|NV[1-9]\d*")
AFFINITY = re.compile(r"(?:[\d,-]+|N/A|all|\s)+")
COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
GLUED = re.compile(r"[\d,-]+N/A")  # two columns' entries
GLUED_NAMES = re.compile(r"((GPU|NIC|mlx\d_)\d+){2,}")
P2P = re.compile(r"OK|[CGT]?NS|DR|U")  # entries of `nvidia-smi topo -p2p`
OLD = {"SOC": "SYS"}  # its name in drivers before NODE
MOST_NVLINKS = 18  # per GPU: a row with a larger sum goes through an NVSwitch


@dataclass(frozen=True)
class Matrix:
    """The content of the text."""

    names: tuple[str, ...]  # GPUs and network cards, the latter named by the "NIC Legend"
    kinds: dict[tuple[str, str], str]  # "X", "NV#", "PIX", "PXB", "PHB", "NODE" or "SYS"
    threads: dict[str, tuple[int, ...]]  # processor threads near each GPU, where given
    numas: dict[str, tuple[int, ...]]  # NUMA nodes near each GPU, where given
    notes: tuple[str, ...] = ()  # on ignored columns


def parse(text: str, name: str = "nvidia-smi", file: str = "nvidia-smi topo -m") -> Topology:
    """Read the matrix and build a topology from it, called `name`.

    `text` is the tool's output; anything before the matrix is ignored. The topology's `notes` list what the matrix
    leaves open, and where no tree fits it. Raises TopologyError with `file` and line.
    """
    return tree(read_matrix(text, file), name)


def read_matrix(text, file="nvidia-smi topo -m") -> Matrix:
    """Read the matrix without building a tree; arguments and errors as in `parse`."""
    lines = _lines(text)
    try:  # a terminal may have broken lines at its width
        return _matrix(_uncut(lines), file)
    except TopologyError:
        return _matrix(lines, file)


def _matrix(lines, file):
    start, end, heading = _heading(lines, file)
    names, extra = _header(heading)
    if len(set(names)) < len(names):
        raise TopologyError.at(file, start + 1, "a device is named twice in the heading")
    if glued := next(filter(GLUED_NAMES.fullmatch, names), None):
        raise TopologyError.at(file, start + 1, f"{glued} in the heading is two devices' names with no space between")
    texts, renamed = _rows(lines, end, names, file)
    rows, columns, left_out = {}, {column: {} for column in COLUMNS[:2]}, {}
    for row, (number, line) in texts.items():
        rows[row], rest = _row(line, names, file, number)
        for column, field in _affinity(row, rest, extra):
            if GLUED.fullmatch(field):
                left_out[column] = (
                    f"{column} of {row} is “{field}”, which is not a list of numbers: the column is ignored"
                )
            elif found := _numbers(field, file, number):
                columns[column][row] = found
    threads, numas = ({} if column in left_out else found for column, found in columns.items())
    numas = {row: _without_gpu_memory(nodes) for row, nodes in numas.items()}
    cards = Counter(renamed.values())
    called = {name: renamed[name] if cards[renamed.get(name)] == 1 else name for name in names}
    kinds = {(called[a], called[b]): cell for a in names for b, cell in zip(names, rows[a], strict=True)}
    for (a, b), kind in kinds.items():
        if (kind == "X") != (a == b) or kinds[b, a] != kind:
            raise TopologyError.at(
                file,
                start + 1,
                f"{a} to {b} is {kind}, and {b} to {a} is {kinds[b, a]}: expected the same, and X on the diagonal only",
            )
    return Matrix(tuple(called.values()), kinds, threads, numas, tuple(left_out.values()))


def _lines(text):
    """Return lines without additions by mail programs, terminals and editors."""
    return [
        QUOTES.sub("", ESCAPES.sub("", TAGS.sub("", html.unescape(line)).translate(MARKS)))
        for line in text.splitlines()
    ]


def _uncut(lines):
    """Join lines that were wrapped at the longest line's width, even inside a word."""
    width, whole, cut = max(map(len, lines), default=0), [], False
    for line in lines:
        if cut:
            whole[-1] += line
        else:
            whole.append(line)
        cut = len(line) == width
    return whole


def _header(line):
    """Return the names of devices and of other columns; None if the line is not a heading."""
    line = " ".join(line.split())
    end = min((start for column in COLUMNS if (start := line.find(column)) >= 0), default=len(line))
    names = line[:end].split()
    # The row of GPU0 also begins with GPU0, but has an X.
    if not names or not re.fullmatch(r"GPU\d+", names[0]) or _cells(line) or not all(map(DEVICE.fullmatch, names)):
        return None
    return names, [column for column in COLUMNS if column in line[end:]]


def _heading(lines, file):
    """Return where the heading and the rows begin, and the heading, which may span lines."""
    found = None
    for start, line in enumerate(lines):
        if not _header(line):
            continue
        end = start + 1
        while end < len(lines) and lines[end].strip() and not _cells(lines[end]):
            line = f"{line} {lines[end]}" if re.search(r"\w", lines[end]) else line
            end += 1
        if not _header(line):
            continue
        found = found or (start, end, line)
        # A line above the matrix may look like a heading; a row follows the real one.
        if end < len(lines) and _cells(lines[end]):
            return start, end, line
    if not found:
        raise TopologyError.at(file, None, "it has no matrix heading, such as “GPU0  GPU1  …  CPU Affinity”")
    return found


def _cells(line):
    return any(map(CELL.fullmatch, line.split()))


def _rows(lines, start, names, file):
    """{device: (line number, whole row)}, and the NIC legend."""
    rows, renamed, row = {}, {}, None
    for number, line in enumerate(lines[start:], start + 1):
        first = line.split()[:1]
        if not re.search(r"\w", line):
            continue
        if first[0] in names and len(rows) < len(names):
            row = first[0]
            if row in rows:
                raise TopologyError.at(file, number, f"a second row of {row}")
            rows[row] = number, line
        elif row and (CELL.fullmatch(first[0]) or AFFINITY.fullmatch(line)):
            rows[row] = rows[row][0], f"{rows[row][1]} {line}"  # a continuation
        elif match := re.match(r"\s*(NIC\d+)\s*:\s*(\S+)\s*$", line):
            renamed[match[1]] = match[2]
        elif len(rows) < len(names):
            raise TopologyError.at(
                file,
                number,
                f"{line.strip()[:60]!r} instead of a row of one of {', '.join(n for n in names if n not in rows)}",
            )
        else:
            row = None
    if missing := [name for name in names if name not in rows]:
        raise TopologyError.at(file, len(lines), f"it ends without a row of {', '.join(missing)}")
    return rows, renamed


def _row(line, names, file, number):
    """Cells of a row, and the text after them."""
    cells, words = [], re.compile(r"\s*(\S*)")
    end = words.match(line).end()
    for column in names:
        match = words.match(line, end)
        cell, end = OLD.get(match[1], match[1]), match.end()
        if P2P.fullmatch(cell):
            raise TopologyError.at(
                file,
                number,
                f"{cell} is printed by `nvidia-smi topo -p2p`; only the matrix of `nvidia-smi topo -m` is read here",
            )
        if not CELL.fullmatch(cell):
            raise TopologyError.at(
                file, number, f"{cell!r} under {column}; expected X, NV# or one of {', '.join(DISTANCES)}"
            )
        cells.append(cell)
    return cells, re.sub(r"^ *\t?", "", line[end:])


def _affinity(name, rest, extra):
    """Yield each of a GPU's columns with its text."""
    if not name.startswith("GPU"):
        return
    # The tool separates columns by tabs, and the first may be empty; pasted text has spaces.
    rest = re.sub(r", +", ",", rest)
    fields = [field.strip() for field in rest.split("\t")] if "\t" in rest else rest.split()
    for column in COLUMNS[:2]:
        if column in extra and fields:
            yield column, fields.pop(0)
        fields = [field for field in fields if field]


def _numbers(text, file, number):
    """Return the numbers in a list such as ``0-3,8``; none for empty text or N/A."""
    listed = ",".join(part for part in text.split(",") if part.strip() not in ("N/A", "all"))
    return tuple(sorted(numbers(listed, file, number)))


def _without_gpu_memory(nodes):
    """Return the processor's node without the nodes of GPU memory after it (on Grace, eight per GPU).

    A GPU's first one may be missing, because it is in the column “GPU NUMA ID”.
    """
    runs = Counter(number - index for index, number in enumerate(nodes[1:]))  # lengths of runs without a gap
    lengths = (0, 7) if runs and nodes[1] > nodes[0] + 1 else (0,)
    return nodes[:1] if runs and all(length % 8 in lengths for length in runs.values()) else nodes


# ---------------------------------------------------------------- the simplest tree


def tree(matrix: Matrix, name: str) -> Topology:
    """Return the simplest topology with this matrix; `reported` has the pairs that fit no tree."""
    near, threads, notes = _numas(matrix)
    notes += matrix.notes
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
    notes += ["made from a matrix: links' rates, models, memory, cores and sockets are unknown"]
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
    return replace(topology, reported=reported, notes=(*_disagreements(topology, reported), *notes))


def _disagreements(topology, reported):
    """Return notes on differences between tree and matrix."""
    pairs = [pair for pair in reported if pair == tuple(sorted(pair)) and topology.kind(*pair) != "?"]
    if pairs:
        a, b = pairs[0]
        yield (
            f"{a} and {b} are {reported[a, b]} apart, and in the tree {topology.kind(a, b)}: "
            f"{plural(len(pairs), 'pair')} of the matrix fit no tree"
        )


def _numas(matrix):
    """Return the NUMA nodes from the matrix's columns: {device: node} if known, {node: threads}, and notes.

    Without numbers, GPUs near the same processor threads share a node. A device without these columns, such as a
    network card, gets the node of the nearest device that is closer than SYS.
    """
    near = {name: nodes[0] for name, nodes in matrix.numas.items() if len(nodes) == 1}
    notes, by_threads = [], {}
    for name, threads in matrix.threads.items():
        by_threads.setdefault(threads, []).append(name)
    for _, names in sorted(by_threads.items()):
        known = sorted({near[name] for name in names if name in near})
        unplaced = [name for name in names if name not in matrix.numas]
        if unplaced and not known:
            known = [next(number for number in range(len(matrix.names) + 1) if number not in near.values())]
            notes = ["the matrix does not number the NUMA nodes: they are counted from 0"]
        near |= {name: known[0] for name in unplaced if len(known) == 1}
    threads = dict.fromkeys(near.values(), ())
    for name in reversed([name for name in matrix.threads if name in near]):
        threads[near[name]] = matrix.threads[name]
    found = True
    while found:
        found = {
            name: near[other]
            for name in matrix.names
            if name not in near
            for other in [_nearest(matrix, name, near)]
            if other
        }
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
