"""Figures of links: those in a machine's figure, and all kinds as bars."""

import math
from collections import Counter

from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from course.machine import link
from course.shared.figure import COLORS, Figure, styled
from ddl.text import plural

WIDTH = 9.0  # width of the figure; all lengths are in inches
LINE, LEAF, PAD = 0.165, 0.44, 0.07  # heights of a line of text, a device and a margin
SHALLOWEST = 0.15  # depth of the shortest NVLink's curve
EDGE = "#555555"


def draw_socket_links(drawing, edges, y):
    """Draw the links between neighboring sockets, given their left and right `edges`."""
    for edge in drawing.topology.socket_links:
        if edge.b != edge.a + 1:
            continue
        left, right = edges[edge.a][1], edges[edge.b][0]
        drawing.panel.plot([left, right], [y, y], color=EDGE, linewidth=1 + edge.count)
        text = f"{edge.count} × {edge.kind}" if edge.count > 1 else edge.kind
        if edge.gb_per_s:
            text += f"\n{edge.gb_per_s:g} GB/s\neach"
        drawing.text((left + right) / 2, y - 0.06, text, size=7, center="top")


def draw_switched(drawing, bottom):
    """Draw NVSwitches as one bar that all GPUs are linked to."""
    switches = {device.name for device in drawing.switches}
    links, rates = Counter(), Counter()
    for nvlink in drawing.topology.nvlinks:
        if {nvlink.a, nvlink.b} & switches:
            gpu = nvlink.a if nvlink.b in switches else nvlink.b
            links[gpu] += nvlink.count
            rates[gpu] += nvlink.gb_per_s
    y, high = bottom - drawing.links, LEAF * 0.7
    drawing.box(2 * PAD, y, WIDTH - 4 * PAD, high, "nvswitch")
    text = f"{len(drawing.switches)} × NVSwitch"
    alike = len({*links.values()}) == 1
    if alike:
        text += f", {max(links.values())} NVLinks from each GPU"
        if not math.isnan(rate := max(rates.values())):
            text += f": {rate:g} GB/s per direction between any two"
    drawing.text(WIDTH / 2, y + high / 2, text, size=8, center=True)
    for gpu, count in links.items():
        x, top = drawing.centers[gpu]
        drawing.panel.plot([x, x], [y + high, top], color=COLORS[2], linewidth=3)
        if not alike:
            drawing.text(x + 0.05, y + high + LINE, f"×{count}", size=6.5)


def draw_direct(drawing, bottom):
    """Draw NVLinks between GPUs as curves below them; more links make a wider curve."""
    names = {gpu.name for gpu in drawing.topology.gpus}
    nvlinks = [nvlink for nvlink in drawing.topology.nvlinks if {nvlink.a, nvlink.b} <= names]
    if not nvlinks:
        return
    kinds = sorted({(nvlink.count, nvlink.generation or 0) for nvlink in nvlinks})
    looks = {kind: {"color": COLORS[at % len(COLORS)], "linewidth": 1 + 1.4 * at} for at, kind in enumerate(kinds)}
    if len(kinds) > 1:
        looks[kinds[0]]["linestyle"] = "--"
    centers = drawing.centers
    widest = max(abs(centers[nvlink.a][0] - centers[nvlink.b][0]) for nvlink in nvlinks)
    for nvlink in nvlinks:
        (a, y), (b, _) = centers[nvlink.a], centers[nvlink.b]
        depth = SHALLOWEST + (drawing.links + y - bottom - SHALLOWEST) * abs(a - b) / widest
        low = y - depth * 4 / 3  # a cubic curve reaches three quarters of the distance to its control points
        path = Path([(a, y), (a, low), (b, low), (b, y)], [Path.MOVETO, *[Path.CURVE4] * 3])
        drawing.panel.add_patch(PathPatch(path, fill=False, **looks[nvlink.count, nvlink.generation or 0]))
    handles = [Line2D([], [], label=_nvlinks(*kind), **look) for kind, look in looks.items()]
    position = {"loc": "lower center", "bbox_to_anchor": (0.5, PAD / drawing.height)}
    drawing.panel.legend(handles=handles, ncols=len(handles), fontsize=8, **position)


def _nvlinks(count, generation):
    words = plural(count, "NVLink")
    if not generation:
        return words
    return f"{words}, {count * link.nvlink_gb_per_s(generation):g} GB/s per direction"


@styled
def plot_links() -> Figure:
    """Draw the bandwidth of kinds of links in one direction; a star marks figures partly without a source."""
    rows = link.links()
    groups = list(dict.fromkeys(row["group"] for row in rows))
    rows = sorted(rows, key=lambda row: (groups.index(row["group"]), row["gb_per_s"]))
    figure = Figure(WIDTH, 1.0 + 0.21 * len(rows) + 0.12 * len(groups))
    panel = figure.subplots()
    places = []
    for at, row in enumerate(rows):
        group = groups.index(row["group"])
        y = at + 1 + 0.6 * group  # space between groups
        places.append(y)
        hatch = "//" if group % 2 else ""
        look = {"color": COLORS[group % len(COLORS)], "alpha": 0.75, "hatch": hatch, "edgecolor": "white"}
        panel.barh(y, row["gb_per_s"], height=0.75, **look)
        panel.annotate(f" {row['gb_per_s']:,.4g}", (row["gb_per_s"], y), va="center", fontsize=8)
    names = [f"{row['link']}{'' if row['confirmed'] else ' *'}" for row in rows]
    panel.set_yticks(places, names, fontsize=8.5)
    panel.set(
        xscale="log",
        xlabel="GB/s per direction (10⁹ bytes a second; memory: in all)\n* in part without a source",
        ylim=(y + 0.8, 0.2),
        xlim=(0.05, 20000),
    )
    panel.grid(axis="y", visible=False)
    panel.xaxis.set_major_formatter("{x:g}")
    for group in groups:
        members = [place for place, row in zip(places, rows, strict=True) if row["group"] == group]
        position = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center"}
        style = {"fontsize": 10, "weight": "bold", "color": COLORS[groups.index(group) % len(COLORS)]}
        panel.annotate(group, (0.995, sum(members) / len(members)), **position, **style)
    figure.alt = (
        "What links can move, GB/s per direction: "
        + "; ".join(f"{name} {row['gb_per_s']:,.4g}" for name, row in zip(names, rows, strict=True))
        + ". * in part without a source."
    )
    return figure
