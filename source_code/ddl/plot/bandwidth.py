"""Figures of what the benchmarks measured: time and bandwidth over message sizes."""

import textwrap

import numpy
from matplotlib.ticker import LogLocator, NullLocator

from ddl.analysis.bandwidth import algorithm_bandwidth, bus_bandwidth, measured
from ddl.errors import InputError
from ddl.plot.picture import COLOURS, LINES, MARKERS, Picture, look, styled
from ddl.words import plural

__all__ = ["plot_bandwidth", "plot_pairs"]


@styled
def plot_bandwidth(runs, operations=None) -> Picture:
    """Draw time and bus bandwidth of runs of `bench_allreduce.py` over message sizes, both axes logarithmic.

    A run has a colour, an operation a marker and a line style; with one run only, operations have colours. `operations`
    selects some. Lines join medians, bands reach from quartile to quartile; the bus bandwidth of one rank, 0, is not
    drawn.

    Raises
    ------
    ValueError
        If these operations were not measured.
    """
    curves = []
    results = measured(runs, "operation")
    there = list(dict.fromkeys(point["operation"] for result in results for point in result["points"]))
    for result in results:
        for operation in there if operations is None else operations:
            points = [point for point in result["points"] if point["operation"] == operation]
            if points:
                curves.append((result, operation, points))
    if not curves:
        raise InputError(
            f"none of these runs measured {' or '.join(operations or there)}; they "
            f"have: {', '.join(there) or 'no operation'}"
        )
    kinds = list(dict.fromkeys(operation for _, operation, _ in curves))
    picture, (times, speeds) = _panels("time of an operation", "bus bandwidth")
    texts = []
    for result, operation, points in curves:
        kind, which = kinds.index(operation), results.index(result)
        style = {
            "color": COLOURS[(kind if len(results) == 1 else which) % len(COLOURS)],
            "linestyle": LINES[kind % len(LINES)],
            "marker": MARKERS[kind % len(MARKERS)],
        }
        sizes, seconds = _curve(points)
        label = f"{operation}, {_of(result, results)}"
        _line(times, sizes, seconds, style, label)
        texts.append(
            f"{label}: {_time(seconds['median'][0])} for {_size(sizes[0])}, "
            f"{_time(seconds['median'][-1])} for {_size(sizes[-1])}"
        )
        speed = {key: bus_bandwidth(operation, sizes, seconds[key], result["ranks"]) for key in seconds}
        if speed["median"].any():
            _line(speeds, sizes, speed, style, label)
            best = speed["median"].argmax()
            texts[-1] += f", at best {_rate(speed['median'][best])} with {_size(sizes[best])}"
    _finish(picture, times, speeds, results, 2)
    picture.alt = f"Time of an operation and bus bandwidth over message size, medians. {'; '.join(texts)}."
    return picture


@styled
def plot_pairs(run) -> Picture:
    """Draw one-way time and bandwidth between pairs of ranks over message sizes, from a run of `bench_p2p.py`.

    A line for each path: the median over pairs, in a band from the fastest pair to the slowest (of one pair: from
    quartile to quartile). With more pairs, a matrix for each path below has each pair's highest bandwidth in GB/s.
    """
    (result,) = results = measured(run, "path")
    paths = {}
    for point in result["points"]:
        by_pair = paths.setdefault(point["path"], {})
        by_pair.setdefault(tuple(point["pair"]), []).append(point)
    matrices = [path for path, by_pair in paths.items() if len(by_pair) > 1]
    picture, (times, speeds) = _panels("time, one way", "bandwidth, one way", matrices)
    texts = []
    for index, (path, by_pair) in enumerate(paths.items()):
        style = look(index)
        sizes, seconds = _over_pairs(by_pair)
        speed = {key: algorithm_bandwidth(sizes, value) for key, value in seconds.items()}
        label = path.replace("_", " ")
        _line(times, sizes, seconds, style, label)
        _line(speeds, sizes, speed, style, label)
        best = speed["median"].argmax()
        texts.append(
            f"{label}: {_time(seconds['median'][0])} for {_size(sizes[0])}, at best "
            f"{_rate(speed['median'][best])} with {_size(sizes[best])}"
            + (f" (median of {len(by_pair)} pairs)" if len(by_pair) > 1 else "")
        )
    for path, panel in zip(matrices, picture.axes[2:], strict=False):
        texts.append(f"{path.replace('_', ' ')}, GB/s at best: " + _draw_matrix(panel, paths[path], path))
    _finish(picture, times, speeds, results, len(paths))
    picture.alt = (
        f"One-way time and bandwidth between {result['ranks']} ranks over message size, medians. {'; '.join(texts)}."
    )
    return picture


# ---------------------------------------------------------------- parts of both


def _panels(time, speed, matrices=()):
    """Make a picture of two panels side by side, with a panel below for each of `matrices`."""
    picture = Picture(9.0, 4.4 + (3.0 if matrices else 0.0))
    rows = picture.add_gridspec(2 if matrices else 1, 1, height_ratios=(4, 3) if matrices else None)
    above = rows[0].subgridspec(1, 2)
    panels = [picture.add_subplot(above[0, column]) for column in (0, 1)]
    panels[0].set(ylabel=time)
    panels[1].set(ylabel=speed)
    if matrices:
        below = rows[1].subgridspec(1, len(matrices))
        for column in range(len(matrices)):
            picture.add_subplot(below[0, column])
    return picture, panels


def _line(panel, sizes, values, style, label):
    panel.plot(sizes, values["median"], label=label, **style)
    panel.fill_between(sizes, values["low"], values["high"], color=style["color"], alpha=0.18, linewidth=0)


def _finish(picture, times, speeds, results, columns):
    for panel, text in ((times, _time), (speeds, _rate)):
        panel.set_xscale("log", base=2)
        panel.set(yscale="log", xlabel="message size")
        at = numpy.log2(panel.get_xlim())
        ticks = [2.0**power for power in range(2, 40, 6) if at[0] <= power <= at[1]]
        if len(ticks) > 1:
            panel.set_xticks(ticks)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(lambda value, _: _size(value))
        panel.yaxis.set_major_locator(LogLocator(numticks=12))
        panel.yaxis.set_major_formatter(lambda value, _, text=text: text(value))
    ways = "; ".join(dict.fromkeys(result["transport"] for result in results))
    picture.suptitle(textwrap.fill(ways, 115), fontsize=10)
    picture.legend(*times.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=9)


def _curve(points):
    """Return sizes (bytes) and times (s) of some points, as arrays in the order of sizes."""
    points = sorted(points, key=lambda point: point["size_bytes"])
    sizes = numpy.array([point["size_bytes"] for point in points], float)
    return sizes, {
        key: numpy.array([point["seconds"][key] for point in points], float) for key in ("median", "low", "high")
    }


def _over_pairs(by_pair):
    curves = [_curve(points) for points in by_pair.values()]
    sizes, seconds = curves[0]
    if len(curves) > 1:
        medians = numpy.stack([each["median"] for _, each in curves])
        seconds = {"median": numpy.median(medians, axis=0), "low": medians.min(axis=0), "high": medians.max(axis=0)}
    return sizes, seconds


def _draw_matrix(panel, by_pair, path):
    """Draw the best bandwidth of each pair of ends; return it in words."""
    ends = list(dict.fromkeys(end for pair in sorted(by_pair, key=str) for end in pair))
    ends.sort(key=lambda end: (isinstance(end, str), end))
    best = numpy.full((len(ends), len(ends)), numpy.nan)
    words = []
    for (one, other), points in by_pair.items():
        sizes, seconds = _curve(points)
        value = 1e-9 * algorithm_bandwidth(sizes, seconds["median"]).max()
        best[ends.index(one), ends.index(other)] = value
        if path != "device":  # there and back again has no direction
            best[ends.index(other), ends.index(one)] = value
        words.append(f"{one} to {other} {value:.3g}")
    panel.imshow(best, cmap="Blues", vmin=0, vmax=1.6 * numpy.nanmax(best))  # black stays readable
    for (row, column), value in numpy.ndenumerate(best):
        if not numpy.isnan(value):
            panel.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=9)
    panel.set_xticks(range(len(ends)), ends)
    panel.set_yticks(range(len(ends)), ends)
    panel.grid(False)
    panel.set(
        title=f"{path.replace('_', ' ')}: at best, GB/s",
        **({} if path == "device" else {"xlabel": "rank", "ylabel": "rank"}),
    )
    return ", ".join(words)


def _of(result, results):
    """Name a run in a legend by what tells it from the others."""
    ranks = plural(result["ranks"], "rank")
    if len(results) == 1:
        return f"{result['backend']}, {ranks}"
    names = len({each["name"] for each in results}) > 1
    same = len({each["ranks"] for each in results}) == 1
    return (result["name"] if names else result["backend"]) + ("" if same else f", {ranks}")


def _size(size_bytes):
    """Return a size as people write it: 4 B, 16 KiB, 256 MiB."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.3g} {name}"
    return f"{size_bytes:g} B"


def _time(seconds):
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{1e6 * seconds:.3g} µs"


def _rate(bytes_per_s):
    for unit, name in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s")):
        if bytes_per_s >= unit:
            return f"{bytes_per_s / unit:.3g} {name}"
    return f"{bytes_per_s:.3g} B/s"
