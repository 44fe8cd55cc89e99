"""Figure of the benchmark of all-reduces: time and bus bandwidth by message size."""

from functools import partial

import numpy
from matplotlib.ticker import LogLocator, NullLocator

from course.machine.text import amount
from course.shared.figure import Figure, band, look, styled
from course.topology.prediction import timed
from ddl.text import plural

TIMES = {1.0: "s", 1e-3: "ms", 1e-6: "µs"}
RATES = {1e9: "GB/s", 1e6: "MB/s", 1e3: "KB/s", 1: "B/s"}


def bus_bandwidth(size_bytes, seconds, ranks: int):
    """Return the bus bandwidth of an all-reduce in bytes/s, to compare with a link's in one direction.

    It is size over time, times the bytes on a rank's link for each byte of the message ("Performance reported by NCCL
    tests", doc/PERFORMANCE.md in https://github.com/NVIDIA/nccl-tests).
    """
    return size_bytes / seconds * 2 * (ranks - 1) / ranks


@styled
def plot_bandwidth(run) -> Figure:
    """Draw time and bus bandwidth of a run of `bench_allreduce.py`.

    Lines are medians and bands are quartiles. The bus bandwidth of one rank, 0, is not drawn.
    """
    points, ranks = timed(run), run.result["ranks"]
    sizes = numpy.array(list(points), float)
    seconds = {key: numpy.array([times[key] for times in points.values()], float) for key in ("median", "low", "high")}
    figure = Figure(9.0, 3.8)
    time, speed = figure.subplots(1, 2)
    _line(time, sizes, seconds)
    time.set(ylabel="time of an all-reduce")
    _scale(time, _time)
    words = (
        f"{_time(seconds['median'][0])} for {amount(sizes[0])}, {_time(seconds['median'][-1])} for {amount(sizes[-1])}"
    )
    speed.set(ylabel="bus bandwidth")
    if ranks > 1:
        rates = {key: bus_bandwidth(sizes, values, ranks) for key, values in seconds.items()}
        _line(speed, sizes, rates)
        best = rates["median"].argmax()
        words += f", at best {_rate(rates['median'][best])} with {amount(sizes[best])}"
    _scale(speed, _rate)
    backend = f"{run.result['backend']}, {plural(ranks, 'rank')}"
    figure.suptitle(f"{backend}: {run.result['transport']}", fontsize=10)
    figure.alt = f"Time of an all-reduce and bus bandwidth over message size, medians. {backend}: {words}."
    return figure


def _line(panel, sizes, values):
    style = look(0)
    panel.plot(sizes, values["median"], **style)
    band(panel, sizes, values["low"], values["high"], style["color"], alpha=0.18)


def _scale(panel, text):
    """Give a panel logarithmic axes: sizes, and values formatted by `text`."""
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


def _in_units(value, units):
    """Format a value in the largest unit that does not exceed it, or the smallest."""
    unit = next((unit for unit in units if value >= unit), min(units))
    return f"{value / unit:.3g} {units[unit]}"


_time, _rate = (partial(_in_units, units=units) for units in (TIMES, RATES))
