"""Figures of the benchmarks: time and bandwidth by message size."""

from functools import partial

import numpy
from matplotlib.ticker import LogLocator, NullLocator

from course.machine.text import amount
from course.shared.figure import Figure, band, look, styled
from course.topology.bandwidth import bus_bandwidth, measured
from ddl.errors import InputError
from ddl.text import plural


@styled
def plot_bandwidth(runs) -> Figure:
    """Draw time and bus bandwidth of runs of `bench_allreduce.py`, one column per operation.

    Lines are medians and bands are quartiles. The bus bandwidth of one rank, 0, is not drawn.
    """
    results = measured(runs, "operation")
    kinds = list(dict.fromkeys(point["operation"] for result in results for point in result["points"]))
    if not kinds:
        raise InputError("none of these runs measured an operation")
    figure = Figure(9.0, 6.4)
    times, speeds = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    texts = []
    for operation, time, speed in zip(kinds, times, speeds, strict=True):
        time.set_title(operation)
        for number, result in enumerate(results):
            style = {"label": _of(result, results), **look(number)}
            texts.append(_draw_operation(result, operation, style, time, speed))
    times[0].set_ylabel("time of an operation")
    speeds[0].set_ylabel("bus bandwidth")
    _scale(times, _time)
    _scale(speeds, _rate)
    for panel in (*times, *speeds):
        panel.label_outer()
        panel.tick_params(axis="x", labelsize=9)
    _finish(figure, results, times[0], columns=2)
    words = "; ".join(filter(None, texts))
    figure.alt = f"Time of an operation and bus bandwidth over message size, medians. {words}."
    return figure


def _draw_operation(result, operation, style, time, speed):
    """Draw an operation of a run, if measured; return its description."""
    points = [point for point in result["points"] if point["operation"] == operation]
    if not points:
        time.plot([], [], **style)
        return ""
    sizes, seconds = _curve(points)
    _line(time, sizes, seconds, style)
    text = (
        f"{operation}, {style['label']}: {_time(seconds['median'][0])} for {amount(sizes[0])}, "
        f"{_time(seconds['median'][-1])} for {amount(sizes[-1])}"
    )
    rates = {key: bus_bandwidth(operation, sizes, seconds[key], result["ranks"]) for key in seconds}
    if not rates["median"].any():
        return text
    _line(speed, sizes, rates, style)
    best = rates["median"].argmax()
    return f"{text}, at best {_rate(rates['median'][best])} with {amount(sizes[best])}"


@styled
def plot_pairs(run) -> Figure:
    """Draw one-way time and bandwidth between pairs of ranks over message sizes, from a run of `bench_p2p.py`.

    A line is the median over pairs, its band from the fastest pair to the slowest (of one pair: from quartile to
    quartile). With more pairs, a matrix for each path below has each pair's highest bandwidth in GB/s.
    """
    (result,) = results = measured(run, "path")
    paths = {}
    for point in result["points"]:
        by_pair = paths.setdefault(point["path"], {})
        by_pair.setdefault(tuple(point["pair"]), []).append(point)
    matrices = [path for path, by_pair in paths.items() if len(by_pair) > 1]
    figure = Figure(9.0, 4.4 + (3.0 if matrices else 0.0))
    rows = figure.add_gridspec(2 if matrices else 1, 1, height_ratios=(4, 3) if matrices else None)
    times, speeds = (figure.add_subplot(place) for place in rows[0].subgridspec(1, 2))
    times.set(ylabel="time, one way")
    speeds.set(ylabel="bandwidth, one way")
    texts = []
    for index, (path, by_pair) in enumerate(paths.items()):
        label = path.replace("_", " ")
        style = {"label": label, **look(index)}
        sizes, seconds = _over_pairs(by_pair)
        speed = {key: sizes / value for key, value in seconds.items()}
        _line(times, sizes, seconds, style)
        _line(speeds, sizes, speed, style)
        best = speed["median"].argmax()
        texts.append(
            f"{label}: {_time(seconds['median'][0])} for {amount(sizes[0])}, at best "
            f"{_rate(speed['median'][best])} with {amount(sizes[best])}"
            + (f" (median of {len(by_pair)} pairs)" if len(by_pair) > 1 else "")
        )
    for path, place in zip(matrices, rows[-1].subgridspec(1, max(len(matrices), 1)), strict=False):
        words = _draw_matrix(figure.add_subplot(place), paths[path], path)
        texts.append(f"{path.replace('_', ' ')}, GB/s at best: {words}")
    _scale([times], _time)
    _scale([speeds], _rate)
    _finish(figure, results, times, columns=len(paths))
    figure.alt = (
        f"One-way time and bandwidth between {result['ranks']} ranks over message size, medians. {'; '.join(texts)}."
    )
    return figure


# ---------------------------------------------------------------- shared parts


def _line(panel, sizes, values, style):
    panel.plot(sizes, values["median"], **style)
    band(panel, sizes, values["low"], values["high"], style["color"], alpha=0.18)


def _scale(panels, text):
    """Give panels logarithmic axes: sizes, and values formatted by `text`."""
    for panel in panels:
        panel.set_xscale("log", base=2)
        panel.set(yscale="log", xlabel="message size")
        at = numpy.log2(panel.get_xlim())
        ticks = [2.0**power for power in range(2, 40, 6) if at[0] <= power <= at[1]]
        if len(ticks) > 1:
            panel.set_xticks(ticks)
        panel.xaxis.set_minor_locator(NullLocator())
        panel.xaxis.set_major_formatter(lambda value, _: amount(value))
        panel.yaxis.set_major_locator(LogLocator(numticks=12))
        panel.yaxis.set_major_formatter(lambda value, _: text(value))


def _finish(figure, results, panel, columns):
    figure.suptitle("; ".join(dict.fromkeys(result["transport"] for result in results)), fontsize=10)
    figure.legend_below(panel, columns=columns, fontsize=9)


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
    """Draw the best bandwidth of each pair of ends; return a description."""
    ends = sorted({end for pair in by_pair for end in pair})
    best = numpy.full((len(ends), len(ends)), numpy.nan)
    words = []
    for (one, other), points in by_pair.items():
        sizes, seconds = _curve(points)
        value = 1e-9 * (sizes / seconds["median"]).max()
        row, column = ends.index(one), ends.index(other)
        best[row, column] = best[column, row] = value  # round trips have no direction
        words.append(f"{one} to {other} {value:.3g}")
    panel.imshow(best, cmap="Blues", vmin=0, vmax=1.6 * numpy.nanmax(best))  # black stays readable
    for (row, column), value in numpy.ndenumerate(best):
        if not numpy.isnan(value):
            panel.text(column, row, f"{value:.3g}", ha="center", va="center", fontsize=9)
    panel.set_xticks(range(len(ends)), ends)
    panel.set_yticks(range(len(ends)), ends)
    panel.grid(False)
    panel.set(title=f"{path.replace('_', ' ')}: at best, GB/s", xlabel="rank", ylabel="rank")
    return ", ".join(words)


def _of(result, results):
    """Return a run's legend label: the settings that differ between runs."""
    ranks = plural(result["ranks"], "rank")
    if len(results) == 1:
        return f"{result['backend']}, {ranks}"
    names = len({each["name"] for each in results}) > 1
    same = len({each["ranks"] for each in results}) == 1
    return (result["name"] if names else result["backend"]) + ("" if same else f", {ranks}")


TIMES = {1.0: "s", 1e-3: "ms", 1e-6: "µs"}
RATES = {1e9: "GB/s", 1e6: "MB/s", 1e3: "KB/s", 1: "B/s"}


def _in_units(value, units):
    """Format a value in the largest unit that does not exceed it, or the smallest."""
    unit = next((unit for unit in units if value >= unit), min(units))
    return f"{value / unit:.3g} {units[unit]}"


_time, _rate = (partial(_in_units, units=units) for units in (TIMES, RATES))
