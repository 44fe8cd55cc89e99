"""The live view's chart as hand-written SVG.

It takes 1 ms of cores that are busy training, against 50 ms with a plotting library, and it follows JupyterLab's theme
(style.css), which an image cannot.
"""

import math
from html import escape

MOST_OWN = 2  # panels for a script's own figures
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, BOTTOM = 330, 150, 46, 24, 36


def chart_svg(progress):
    """Return SVG charts of training loss and held-out accuracy, and of the script's own figures over steps."""
    x_name = "step" if progress.over_steps else "samples seen"
    losses = [point for point in progress.losses if None not in point]
    accuracies = [
        (row["samples"], 100 * row["test_accuracy"])
        for row in progress.history
        if row.get("samples") is not None and row.get("test_accuracy") is not None
    ]
    loss = accuracy = "no value yet"
    if losses:
        loss = f"from {losses[0][1]:.3f} to {losses[-1][1]:.3f}"
    if accuracies:
        best = max(y for _, y in accuracies)
        accuracy = f"from {accuracies[0][1]:.1f}% to {accuracies[-1][1]:.1f}%, at best {best:.1f}%"
    own = list(progress.curves.items())[:MOST_OWN]
    # Title, points, kind of line, name of the horizontal axis, and a text for those who cannot see it.
    wanted = [("training loss", losses, "ddl-loss", x_name, f"Training loss over {x_name}: {loss}.")]
    if accuracies or not own:
        text = f"Held-out accuracy over {x_name}: {accuracy}."
        wanted.append(("held-out accuracy, %", accuracies, "ddl-accuracy", x_name, text))
    for name, points in own:
        text = f"{name} over step: from {points[0][1]:.4g} to {points[-1][1]:.4g}."
        wanted.append((name, list(points), "ddl-accuracy", "step", text))
    ends = {}  # of each horizontal axis: loss and accuracy have the same
    for _, points, _, over, _ in wanted:
        ends[over] = max([ends.get(over, 0), *(x for x, _ in points)])
    panels = [
        _panel(title, _thinned(points), ends[over] or 1, kind, over, text)
        for title, points, kind, over, text in wanted
        if not progress.over or any(x for x, _ in points)  # at the end, no empty chart
    ]
    return f'<div class="ddl ddl-charts">{"".join(panels)}</div>' if panels else ""


def _thinned(points):
    """Return about 200 of the points, the last one among them."""
    return points[:: max(1, len(points) // 200)] + points[-1:]


def _panel(title, points, x_end, kind, over, text):
    width, height = PANEL_WIDTH - LEFT - 14, PANEL_HEIGHT - TOP - BOTTOM
    y_ticks = ticks(min((y for _, y in points), default=0), max((y for _, y in points), default=1))
    low, high = y_ticks[0], y_ticks[-1]

    def at(x, y):
        return (round(LEFT + width * x / x_end, 1), round(TOP + height * (1 - (y - low) / (high - low)), 1))

    parts = [f'<text x="{LEFT}" y="14" class="ddl-title">{escape(title)}</text>']
    for tick in y_ticks:
        x, y = at(0, tick)
        parts.append(f'<path d="M{x} {y}h{width}" class="ddl-grid"/>')
        parts.append(f'<text x="{x - 6}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    for tick in ticks(0, x_end, inside=True):
        x, y = at(tick, low)
        parts.append(f'<text x="{x}" y="{y + 15}" text-anchor="middle">{short(tick)}</text>')
    parts.append(f'<text x="{LEFT + width / 2}" y="{PANEL_HEIGHT - 5}" text-anchor="middle">{over}</text>')
    positions = [at(x, y) for x, y in points]
    line = " ".join(f"{x},{y}" for x, y in positions)
    parts.append(f'<polyline points="{line}" class="{kind}"/>')
    dots = positions if kind == "ddl-accuracy" and len(positions) <= 40 else positions[-1:]
    parts += [f'<circle cx="{x}" cy="{y}" r="2.5" class="{kind}"/>' for x, y in dots]
    return (
        f'<svg class="ddl ddl-chart" role="img" aria-label="{escape(text)}" '
        f'viewBox="0 0 {PANEL_WIDTH} {PANEL_HEIGHT}">{"".join(parts)}</svg>'
    )


def ticks(low, high, inside=False):
    """Return a few round values that cover the range from low to high or, with `inside`, lie within it."""
    span = (high - low) or abs(high) or 1.0
    unit = 10 ** math.floor(math.log10(span / 4))
    step = unit * min(m for m in (1, 2, 5, 10) if m * unit >= span / 4 * 0.9999)
    first, last = low / step, high / step
    first, last = (
        (math.ceil(first - 1e-9), math.floor(last + 1e-9))
        if inside
        else (math.floor(first + 1e-9), math.ceil(last - 1e-9))
    )
    return [round(step * k, 10) for k in range(first, max(last, first + 1) + 1)]


def short(number):
    """Return a number in short form: 1500 as ``1.5k``."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"
