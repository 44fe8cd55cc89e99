"""Figure of a machine, with its parts as nested boxes and links from `course.topology.plot_links`."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations

from matplotlib.patches import FancyBboxPatch

from course.machine.text import amount
from course.shared.figure import Figure, styled
from course.topology.plot_links import EDGE, LEAF, LINE, PAD, WIDTH, draw_direct, draw_socket_links, draw_switched

GAP = 0.7  # inches between sockets
LEAST_COLUMNS, LEAST_COLUMNS_NARROW = 0.9, 1.5  # width of a NUMA node without devices, and of a narrow one
WIDEST_COLUMN, WIDEST_COLUMN_ALONE = 9.0, 4.0  # the second if there is one NUMA node
FONT_SIZES = ((0.78, 8), (0.6, 7), (-math.inf, 6.3))  # font size in points by minimal column width in inches
MEMORY_TEXT = 0.6  # a device narrower than this breaks its second line
LONGEST_NAME = 12  # maximal length of a device's name
SWITCHES = 0.55  # height of NVSwitches and their links
CURVES, CURVES_PER_GPU, CURVES_MOST = 0.35, 0.13, 1.4  # height of NVLinks between GPUs
LEGEND = 0.3
FACES = {
    "machine": "#ffffff",
    "socket": "#f4f4f4",
    "numa": "#e3eef7",
    "root": "#ffffff",
    "switch": "#ececec",
    "gpu": "#bfe3d6",
    "nic": "#f9dcc4",
    "disk": "#e4d8ec",
    "nvswitch": "#bfe3d6",
    "other": "#ffffff",
}


@dataclass
class Box:
    """A root complex or switch with its contents."""

    label: str
    kind: str
    leaves: list
    boxes: list

    @property
    def rows(self):
        """Devices in two rows: GPUs below, where NVLinks start, and others above."""
        rows = ([d for d in self.leaves if d.kind != "gpu"], [d for d in self.leaves if d.kind == "gpu"])
        return [row for row in rows if row]

    @property
    def columns(self):
        return max(map(len, self.rows), default=0) + sum(box.columns for box in self.boxes)

    @property
    def height(self):
        inner = max([len(self.rows) * (LEAF + PAD), *(box.height + PAD for box in self.boxes)])
        return inner + LINE + PAD


@styled
def plot_topology(topology) -> Figure:
    """Draw a machine: sockets, NUMA nodes with their processors as text, the PCIe tree, GPUs and NVLinks.

    More NVLinks make a wider line; the legend has their number and speed.
    """
    # With many NUMA nodes, columns are narrow, so each item gets its own line.
    narrow = len(topology.numas) > 2 * max(1, len(topology.sockets))
    sections = [_Section(topology, numa, narrow) for numa in topology.numas]
    lost = _Section(topology, None, narrow)
    if lost.boxes:
        sections.append(lost)
    drawing = _Drawing(topology, sections)
    figure = Figure(WIDTH, drawing.height)
    panel = figure.subplots()
    panel.set(xlim=(0, WIDTH), ylim=(0, drawing.height), aspect="equal")
    panel.set_axis_off()
    drawing.draw(panel)
    figure.alt = _words(topology)
    return figure


class _Section:
    """A NUMA node with its lines of text and PCIe boxes; None for devices of unknown nodes."""

    def __init__(self, topology, numa, narrow):
        self.numa, self.narrow = numa, narrow
        self.number, self.socket = (numa.number, numa.socket) if numa else (None, None)
        self.cores = [core for core in topology.cores if core.numa == self.number]
        numbers = {core.number for core in self.cores}
        self.caches = [cache for cache in topology.caches if numbers & set(cache.cores)]
        self.boxes = _boxes(topology, self.number)
        self.lines = self._lines()

    @property
    def columns(self):
        return max(sum(box.columns for box in self.boxes), LEAST_COLUMNS_NARROW if self.narrow else LEAST_COLUMNS)

    @property
    def height(self):
        """Height of everything above the PCIe boxes."""
        return len(self.lines) * LINE + 2 * PAD

    def _lines(self):
        if self.numa is None:
            return ["NUMA node", "not known"]
        parts = [[f"NUMA {self.number}" if self.narrow else f"NUMA node {self.number}"]]
        if self.cores:
            threads = sum(len(core.threads) for core in self.cores)
            parts.append([f"{len(self.cores)} cores", f"{threads} threads"])
            alike = Counter((c.level, c.size_bytes) for c in self.caches if c.level > 1 and c.kind != "instruction")
            caches = [
                f"L{level} {f'{count}×' * (count > 1)}{amount(size)}"
                for (level, size), count in sorted(alike.items(), reverse=True)
            ]
            parts.append(caches[:1] if self.narrow else caches)
        if self.numa.memory_bytes:
            memory = [amount(self.numa.memory_bytes) + (" memory" * (not self.narrow))]
            if self.numa.memory_gb_per_s:
                memory.append(f"{'' if self.narrow else 'at '}{self.numa.memory_gb_per_s:.4g} GB/s")
            parts.append(memory)
        return [text for part in parts for text in (part if self.narrow else [", ".join(part)]) if text]


def _boxes(topology, numa):
    """Return the PCIe boxes of a NUMA node; roots without GPUs share one box."""
    below = {}
    for device in topology.devices:
        below.setdefault(device.under, []).append(device)
    roots = [d for d in below.get("", ()) if d.numa == numa and d.kind != "nvswitch"]
    boxes, rest = [], []
    for root in roots:
        box = _box(root, below)
        inside = _all(box)
        if any(device.kind == "gpu" for device in inside):
            boxes.append(box)
        else:
            rest += [d for d in inside if d.kind != "disk" or len(topology.gpus) < 2]
    if rest:
        boxes.append(Box("PCIe", "root", rest, []))
    return boxes


def _box(device, below):
    inner = below.get(device.name, ())
    leaves = [d for d in inner if d.name not in below and d.kind != "nvswitch"]
    if device.kind not in ("root", "switch"):
        return Box("", "root", [device], [])
    boxes = [_box(d, below) for d in inner if d.name in below]
    # Omit a switch in front of a single device, and a box around a single box.
    leaves += [leaf for box in boxes if len(_all(box)) == 1 for leaf in _all(box)]
    boxes = [box for box in boxes if len(_all(box)) > 1]
    if len(boxes) == 1 and not leaves:
        return Box("PCIe switch", "switch", boxes[0].leaves, boxes[0].boxes)
    return Box("PCIe root" if device.kind == "root" else "PCIe switch", device.kind, leaves, boxes)


def _all(box):
    return [*box.leaves, *(device for inner in box.boxes for device in _all(inner))]


class _Drawing:
    """Layout and drawing of a topology."""

    def __init__(self, topology, sections):
        self.topology = topology
        self.switches = topology.of("nvswitch")
        self.sockets = self._by_socket(sections)
        self.tree = max((box.height for section in sections for box in section.boxes), default=0)
        above = max((section.height for section in sections), default=0)
        self.socket = above + self.tree + LINE + 6 * PAD
        switches = {device.name for device in self.switches}
        direct = any(not {link.a, link.b} & switches for link in topology.nvlinks)
        self.links = 0.0
        if self.switches:
            self.links = SWITCHES
        elif direct:
            self.links = min(CURVES_MOST, CURVES + CURVES_PER_GPU * len(topology.gpus))
        self.height = self.socket + self.links + 3 * LINE + 2 * PAD + LEGEND * direct
        self.pad = PAD / 2.5 if any(section.narrow for section in sections) else PAD
        self.gaps = GAP * (len(self.sockets) - 1)
        margins = sum(4 * self.pad * len(nodes) + 2 * PAD for _, nodes in self.sockets)
        columns = sum(section.columns for _, nodes in self.sockets for section in nodes) or 1
        widest = WIDEST_COLUMN_ALONE if len(sections) == 1 else WIDEST_COLUMN
        self.column = min((WIDTH - 4 * PAD - self.gaps - margins) / columns, widest)
        self.size = next(points for width, points in FONT_SIZES if self.column > width)
        self.centers = {}  # of the devices, at their lower edges

    def _by_socket(self, sections):
        """Return (number, NUMA nodes) of each socket with nodes; unknown sockets are last, as None."""
        numbers = [*(socket.number for socket in self.topology.sockets), None]
        by_socket = [(number, [each for each in sections if each.socket == number]) for number in numbers]
        return [(number, nodes) for number, nodes in by_socket if nodes]

    def draw(self, panel):
        self.panel = panel
        topology = self.topology
        self.box(PAD, PAD, WIDTH - 2 * PAD, self.height - 2 * PAD, "machine")
        self.text(2 * PAD, self.height - 2 * PAD, topology.title or topology.name, bold=True, size=10)
        self.text(2 * PAD, self.height - 2 * PAD - 1.2 * LINE, _facts(topology), size=8)
        bottom = self.height - self.socket - 3 * LINE
        total = sum(self.width(nodes) for _, nodes in self.sockets) + self.gaps
        x, edges = max(2 * PAD, (WIDTH - total) / 2), {}
        for number, nodes in self.sockets:
            width = self.width(nodes)
            self.draw_socket(number, nodes, x, bottom, width)
            edges[number] = (x, x + width)
            x += width + GAP
        draw_socket_links(self, edges, bottom + self.socket - 2.5 * LINE)
        if self.switches:
            draw_switched(self, bottom)
        draw_direct(self, bottom)

    def width(self, sections):
        return sum(s.columns * self.column + 4 * self.pad for s in sections) + 2 * PAD

    def draw_socket(self, number, sections, x, y, width):
        models = {socket.number: socket.model for socket in self.topology.sockets}
        label = "socket unknown" if number is None else f"socket {number}  {models[number]}".strip()
        self.box(x, y, width, self.socket, "socket")
        self.text(x + PAD, y + self.socket - 0.5 * PAD, label, size=8, bold=True)
        x += PAD
        for section in sections:
            wide = section.columns * self.column + 2 * self.pad
            self.draw_section(section, x + self.pad, y + PAD, wide, self.socket - LINE - 3 * PAD)
            x += wide + 2 * self.pad

    def draw_section(self, section, x, y, width, height):
        self.box(x, y, width, height, "numa")
        for at, line in enumerate(section.lines):
            self.text(x + PAD, y + height - 0.5 * PAD - at * LINE, line, size=min(8, self.size + 0.5))
        at = x + self.pad
        for box in section.boxes:
            self.draw_box(box, at, y + PAD, self.tree, box.columns * self.column)
            at += box.columns * self.column

    def draw_box(self, box, x, y, height, width):
        inset = PAD / 2
        self.box(x + inset, y, width - 2 * inset, height, box.kind)
        self.text(x + 1.7 * inset, y + height - 0.2 * PAD, box.label, size=self.size - 0.5)
        columns = max(map(len, box.rows), default=0)
        each = (width - 2 * inset) / max(box.columns, 1)
        for row, devices in enumerate(reversed(box.rows)):
            left = x + inset + (columns - len(devices)) / 2 * each
            for at, device in enumerate(devices):
                self.draw_leaf(device, left + at * each + 0.03, y + PAD / 2 + row * (LEAF + PAD), each - 0.06)
        left = x + inset + columns * each
        for inner in box.boxes:
            self.draw_box(inner, left, y + PAD / 2, height - LINE - PAD, inner.columns * each)
            left += inner.columns * each

    def draw_leaf(self, device, x, y, width):
        self.box(x, y, width, LEAF, device.kind)
        below = _below(device)
        if width < MEMORY_TEXT:
            below = below.replace(" ", "\n")
        name = device.name
        if len(name) > LONGEST_NAME:
            name = f"{name[: LONGEST_NAME - 1]}…"
        self.text(x + width / 2, y + LEAF / 2, f"{name}\n{below}".strip(), center=True)
        self.centers[device.name] = (x + width / 2, y)

    def box(self, x, y, width, height, kind):
        style = {"boxstyle": "round,pad=0,rounding_size=0.05", "edgecolor": EDGE, "linewidth": 0.8}
        self.panel.add_patch(FancyBboxPatch((x, y), width, height, facecolor=FACES[kind], **style))

    def text(self, x, y, text, size=None, bold=False, center=False):
        position = {"ha": "center" if center else "left", "va": "center" if center is True else "top"}
        weight = "bold" if bold else "normal"
        self.panel.text(
            x, y, text, fontsize=size or self.size, weight=weight, clip_on=True, linespacing=1.1, **position
        )


def _below(device):
    """Return the second line of a device: its memory, speed or type."""
    if device.kind == "gpu" and device.memory_bytes:
        return amount(device.memory_bytes)
    if device.gbit_per_s:
        return f"{device.gbit_per_s:g} Gbit/s"
    return {"nic": "network", "disk": "disk"}.get(device.kind, "")


def _facts(topology):
    facts = []
    for kind in ("gpu", "nic"):
        devices = topology.of(kind)
        for (model, gb_per_s), count in Counter((d.model, d.gb_per_s) for d in devices).items():
            if model:
                facts.append(f"{count} × {model}" + (f" on PCIe at {gb_per_s:.4g} GB/s" if gb_per_s else ""))
    if topology.network:
        facts.append(f"network {topology.network.gb_per_s:g} GB/s")
    if topology.limit:
        facts.append(f"{topology.limit} usable here")
    return "; ".join(facts) or topology.summary()


def _words(topology):
    text = f"{topology.title or topology.name}, {topology.origin}: {topology.summary()}."
    facts = _facts(topology)
    text += f" {facts}." if facts != topology.summary() else ""
    pairs = Counter(topology.kind(a.name, b.name) for a, b in combinations(topology.gpus, 2))
    if pairs:
        text += " Pairs of GPUs: " + ", ".join(f"{count} {kind}" for kind, count in sorted(pairs.items())) + "."
    return text
