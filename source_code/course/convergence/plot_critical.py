"""Figures of the critical batch size, of paired differences, and of searches for learning rates."""

import math
from collections import namedtuple
from collections.abc import Mapping, Sequence

import numpy
from matplotlib.ticker import NullLocator

from course.convergence.critical import Critical, Noise, reached
from course.convergence.tuning import grids
from course.shared.figure import COLORS, GRAY, Figure, band, configuration_looks, frame, list_rows, styled
from ddl.comparison import compare, signed
from ddl.display.chart import short
from ddl.display.style import data_of
from ddl.errors import InputError
from ddl.text import plural

REGIONS = {"perfect scaling": "#ffffff", "diminishing returns": "#eeeeee", "maximal data parallelism": "#d9d9d9"}
# Critical batch size and noise scale, averaged over a training, in samples (tokens, or moments of a game), without the
# ranges in McCandlish et al. 2018, table 1. The paper estimates Dota 5v5's critical batch size and measures the others.
PUBLISHED = {
    "autoencoder of SVHN": (40, 2),
    "MNIST": (200, 900),
    "SVHN": (500, 4_000),
    "CIFAR-10": (900, 2_000),
    "ImageNet": (15_000, 30_000),
    "Billion Word (tokens)": (100_000, 150_000),
    "Dota 2, one player": (3_000_000, 300_000),
    "Dota 2, five players (estimated)": (8_000_000, 24_000_000),
}
VERDICTS = {"better": COLORS[2], "worse": COLORS[1], "within the margin": COLORS[0], "not decided": GRAY}


# ---------------------------------------------------------------- the critical batch size


@styled
def plot_critical_batch(curve: Critical, noise: Mapping[str, Noise] | None = None, reader: Sequence = ()) -> Figure:
    """Draw steps and samples to a target against batch size, with the critical batch below.

    A dot is a seed, a band the curve's 95 % interval; hollow dots are seeds of batches excluded from the fit because a
    seed missed the target. The background shows the regions of Shallue et al. 2019, section 4.1. Estimates of the
    `noise` scale, by label, get a line from their 10th to their 90th percentile. Runs of the `reader` are drawn where
    they reached the same target.
    """
    noise = dict(noise or {})
    reader = [(run, found) for run in reader if (found := reached(run, curve.target)) is not None]
    rows = [_critical_row(curve), *(_noise_row(*item) for item in noise.items())]
    batches = [point.batch for point in curve.points]
    middles = [row.middle for row in rows if math.isfinite(row.middle)]
    limits = min([batches[0], *middles]) / 2**0.5, max([batches[-1], *middles]) * 2**0.5
    figure = Figure(8.0, 6.2 + 0.28 * len(rows))
    heights = {"height_ratios": [3, 2.4, 0.35 * len(rows) + 0.2]}
    steps, samples, marks = figure.subplots(3, 1, sharex=True, gridspec_kw=heights)
    looks = configuration_looks([curve.configuration, *noise])
    _draw_curve(curve, looks[curve.configuration], steps, samples)
    for panel, label in ((steps, "optimizer steps"), (samples, "samples")):
        frame(panel, y="{x:g}", xscale="log", xlim=limits, ylabel=f"{label} to the target")
        panel.yaxis.set_major_formatter(lambda value, _: short(value))
    _draw_ideal(curve, steps, samples)
    _draw_regions(curve, (steps, samples))
    for number, (run, found) in enumerate(reader):
        star = dict(marker="*", color="#000000", markeredgecolor="#ffffff", markersize=14, linestyle="", zorder=5)
        batch = run.result["global_batch"]
        steps.plot([batch], [found.steps], label=None if number else "your runs", **star)
        samples.plot([batch], [found.samples], **star)
    _draw_rows(marks, rows, [looks[name] for name in (curve.configuration, *noise)])
    marks.set_xticks(batches, [f"{batch:,}" for batch in batches])
    marks.xaxis.set_minor_locator(NullLocator())
    marks.set_xlabel("global batch size, samples")
    target = f"{100 * curve.target:g} %"
    figure.suptitle(f"target: held-out accuracy of {target}; data: {curve.data}", fontsize=11)
    figure.legend_below(steps, columns=3)
    figure.alt = (
        f"Steps and samples to a held-out accuracy of {target} against batch size, logarithmic, on {curve.data}. "
        + _in_words(curve)
        + "".join(f" {row.label}: {row.words}." for row in rows)
        + "".join(
            f" Your run at batch {run.result['global_batch']:,}: {found.steps:,} steps, {found.samples:,} samples."
            for run, found in reader
        )
    )
    return figure


_Row = namedtuple("_Row", "label middle low high words")  # a batch size with its interval, for the lowest panel


def _critical_row(curve):
    label = "critical batch"
    if not curve.has_fit:
        return _Row(label, math.nan, math.nan, math.nan, "too few batches reached the target")
    return _Row(label, curve.fit.critical, *curve.fit.interval, str(curve.fit))


def _noise_row(label, noise):
    low, high = noise.spread
    ends = " to ".join(f"{end:,.0f}" if math.isfinite(end) else "more than can be estimated" for end in (low, high))
    middle = f"median {noise.middle:,.0f}" if math.isfinite(noise.middle) else "mostly more than can be estimated"
    part = "the middle 80 %" if len(noise.values) > 9 else "all"  # of nine, the 10th percentile is the lowest
    words = f"{middle}, {part} from {ends} ({plural(len(noise.values), 'estimate')})"
    return _Row(label, noise.middle, low, high, words)


def _draw_curve(curve, style, steps, samples):
    color, marker = style["color"], style["marker"]
    style = style | {"marker": ""}
    if curve.has_fit:
        x = numpy.geomspace(curve.fit.batches[0], curve.fit.batches[-1], 100)
        low, high = curve.fit.band(x)
        for panel, times in ((steps, 1), (samples, x)):
            panel.plot(x, curve.fit.steps(x) * times, label="fitted curve", **style)
            band(panel, x, low * times, high * times, color, alpha=0.2)
            panel.axvline(curve.fit.critical, color=color, linewidth=1, linestyle=":")
    for point in curve.points:
        face = "none" if point.missed else color
        batch = [point.batch] * len(point.seeds)
        dots = dict(color=color, marker=marker, linestyle="", markerfacecolor=face, markersize=5, alpha=0.8)
        name = "a seed" if point is curve.points[0] else None
        steps.plot(batch, [run.steps for run in point.seeds.values()], label=name, **dots)
        samples.plot(batch, [run.samples for run in point.seeds.values()], **dots)


def _draw_ideal(curve, steps, samples):
    """Draw perfect scaling from the smallest batch to the edge of the panel."""
    if not curve.whole:
        return
    first, last = curve.whole[0], curve.whole[-1]
    x = numpy.array([first.batch, last.batch])
    style = {"color": GRAY, "linewidth": 1, "linestyle": "--"}
    for panel, y in ((steps, first.steps * x[0] / x), (samples, numpy.full(2, first.steps * x[0]))):
        limits = panel.get_ylim()
        panel.plot(x, y, label="twice the batch, half the steps", **style)
        panel.set_ylim(limits)


def _draw_regions(curve, panels):
    """Shade the regions between their limits."""
    if not curve.doublings:
        return
    first, last = panels[0].get_xlim()
    bend, end = curve.perfect_until or first, curve.maximal_from or last
    spans = dict(zip(REGIONS, ((first, bend), (bend, end), (end, last)), strict=True))
    for panel in panels:
        for region, (low, high) in spans.items():
            if low < high:
                label = region if panel is panels[0] else None
                panel.axvspan(low, high, facecolor=REGIONS[region], edgecolor="#bbbbbb", zorder=0, label=label)


def _draw_rows(panel, rows, looks):
    """Draw critical batches and noise scales on the batches' axis; an arrow where an interval is open."""
    left, right = panel.get_xlim()
    for index, (row, style) in enumerate(zip(rows, looks, strict=True)):
        style = style | {"linestyle": ""}
        if not math.isnan(row.low):
            ends = [min(max(end, left), right) for end in (row.low, row.high)]
            panel.plot(ends, [index] * 2, color=style["color"], linewidth=4, alpha=0.4, solid_capstyle="butt")
        if math.isfinite(row.middle):
            panel.plot([row.middle], [index], markersize=7, **style)
        if row.high > right:
            panel.plot([right], [index], ">", color=style["color"], markersize=9, clip_on=False)
    panel.set_yticks(range(len(rows)), [row.label for row in rows])
    panel.set_ylim(len(rows) - 0.4, -0.6)


def _in_words(curve):
    points = "; ".join(
        f"batch {point.batch:,} {point.steps:,.0f} steps and {point.batch * point.steps:,.0f} samples"
        if not math.isnan(point.steps)
        else f"batch {point.batch:,} missed the target with {plural(point.missed, 'seed')}"
        for point in curve.points
    )
    regions = ""
    if curve.doublings:
        until, start = curve.perfect_until, curve.maximal_from
        until, start = f"up to {until:,}" if until else "nowhere", f"from {start:,} on" if start else "nowhere"
        regions = f" Doubling the batch halves the steps {until}, and saves almost none {start}."
    return f"{curve.configuration}: {points}.{regions}"


@styled
def plot_tasks(measured: Critical, noise: Noise) -> Figure:
    """Draw critical batch size and noise scale of `PUBLISHED` tasks and of our own runs, from small to large."""
    ours = {f"this lesson, {measured.data.partition(' ')[0]}": (measured.fit.critical, noise.middle)}
    tasks = dict(sorted((PUBLISHED | ours).items(), key=lambda item: item[1][0]))
    figure = Figure(8.0, 1.2 + 0.3 * len(tasks))
    panel = figure.subplots()
    for index, pair in enumerate(tasks.values()):
        panel.plot(pair, [index] * 2, color="#cccccc", linewidth=2, zorder=1)
    for label, values, color, marker in zip(
        ("critical batch size", "noise scale"), zip(*tasks.values(), strict=True), COLORS, "oD", strict=False
    ):
        panel.plot(values, range(len(tasks)), marker, color=color, markersize=7, label=label)
    list_rows(panel, list(tasks))
    frame(panel, xscale="log", xlabel="samples", title="McCandlish et al. 2018, table 1, and this lesson")
    panel.xaxis.set_major_formatter(lambda value, _: short(value))
    panel.legend(loc="lower left")
    rows = "; ".join(f"{task} {batch:,.0f} and {scale:,.0f}" for task, (batch, scale) in tasks.items())
    figure.alt = f"Critical batch size and noise scale, on a logarithmic axis: {rows}."
    return figure


# ---------------------------------------------------------------- differences and rates


@styled
def plot_differences(runs, against: str, margin: float = 1.0) -> Figure:
    """Draw the differences that `ddl.compare` tabulates with the same arguments, with intervals and the margin."""
    table = compare(runs, against=against, margin=margin)
    every = zip(table.to_dict("records"), table.attrs["differences"], strict=True)
    rows = [row | {"seeds": seeds} for row, seeds in every if not math.isnan(row["difference_points"])]
    if not rows:
        raise InputError(f"no configuration has held-out accuracies to compare with those of {against!r}")
    pairs = {row["pairs"] for row in rows}
    figure = Figure(8.0, 1.7 + 0.4 * len(rows))
    panel = figure.subplots()
    panel.axvspan(-margin, margin, color="#dddddd", zorder=0)
    panel.axvline(0, color=GRAY, linewidth=1)
    for index, row in enumerate(rows):
        color = VERDICTS[row["verdict"]]
        panel.plot(row["seeds"], [index + 0.25] * len(row["seeds"]), ".", color=GRAY, markersize=5)
        if row["pairs"] > 1:
            panel.plot([row["low_points"], row["high_points"]], [index] * 2, linewidth=4, alpha=0.5, color=color)
        panel.plot([row["difference_points"]], [index], "o", color=color, markersize=7)
        position = {"xy": (1.02, index), "xycoords": ("axes fraction", "data"), "va": "center"}
        panel.annotate(row["verdict"], color=color, **position)
    many = [f" ({plural(row['pairs'], 'pair')})" if len(pairs) > 1 else "" for row in rows]
    list_rows(panel, [row["configuration"] + pair for row, pair in zip(rows, many, strict=True)])
    panel.set_xlabel(f"held-out accuracy minus that of “{against}”, points")
    panel.grid(axis="y", visible=False)
    data = " and ".join(dict.fromkeys(row["data"] for row in rows if row["data"]))
    count = f" of {plural(pairs.pop(), 'pair')}" if len(pairs) == 1 else ""
    where = table.attrs["title"]
    title = f"mean{count} and its 95 % interval, a dot a pair of seeds; shaded: ±{margin:g}"
    figure.suptitle(f"{title}\n{where}\ndata: {data}", fontsize=11)
    figure.alt = f"Held-out accuracy minus that of {against}, in points, {where}, on {data}: " + "; ".join(
        f"{row['configuration']} {signed(row['difference_points'])}"
        + (f" ({signed(row['low_points'])} to {signed(row['high_points'])})" if row["pairs"] > 1 else " (no interval)")
        + f", {row['verdict']}"
        for row in rows
    )
    return figure


@styled
def plot_tuning(runs) -> Figure:
    """Draw held-out accuracy against learning rate: a line a configuration, a dot a seed, a ring at the best."""
    runs = [run for run in runs if run.result is not None]
    found = grids(runs)
    figure = Figure(8.0, 4.6)
    panel = figure.subplots()
    texts = []
    looks = configuration_looks(found)
    for configuration, grid in found.items():
        style = looks[configuration]
        means = {rate: 100 * mean for rate, mean in grid.means.items()}
        line = {**style, "markersize": 5}
        panel.plot(list(means), list(means.values()), label=configuration, **line)
        dots = [(rate, 100 * value) for rate, values in grid.figures.items() for value in values]
        panel.plot(*zip(*dots, strict=True), ".", color=style["color"], alpha=0.5, markersize=5)
        if grid.best is None:
            texts.append(f"{configuration}: every rate failed")
            continue
        ring = dict(marker="o", markersize=13, markerfacecolor="none", markeredgewidth=1.8, color=style["color"])
        panel.plot([grid.best], [means[grid.best]], linestyle="", **ring)
        edge = ", at the edge of its grid" if grid.at_edge else ""
        texts.append(f"{configuration}: best at {grid.best:.4g}{edge}, with {means[grid.best]:.1f} %")
        failed = [f"{rate:.4g}" for rate, mean in means.items() if math.isnan(mean)]
        if failed:
            texts[-1] += f"; failed at {', '.join(failed)}"
    data = data_of(runs)
    title = f"data: {data}; a ring at each configuration's best rate"
    frame(panel, x="{x:.4g}", xlabel="learning rate", ylabel="held-out accuracy, %", title=title)
    figure.legend(loc="outside lower center", ncols=min(3, len(found)))
    figure.alt = f"Held-out accuracy against learning rate, logarithmic, on {data}. {'; '.join(texts)}."
    return figure
