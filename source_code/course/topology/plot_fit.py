"""Figure of a fit to all-reduces."""

import numpy

from course.shared.figure import GRAY, Figure, look, styled
from course.topology.prediction import timed


@styled
def plot_fit(measured, fit, messages) -> Figure:
    """Draw a run of `bench_allreduce.py` with a fit and, below, each point's relative error.

    Also draw what a ring's messages take through sockets alone, from `messages`, a run of `bench_p2p.py`.
    """
    points = timed(measured)
    size_bytes = numpy.array(list(points), float)
    seconds, low, high = (
        numpy.array([times[key] for times in points.values()], float) for key in ("median", "low", "high")
    )
    figure = Figure(9.0, 5.2)
    times, errors = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    quartiles = [1e6 * numpy.maximum(seconds - low, 0), 1e6 * numpy.maximum(high - seconds, 0)]
    style = {"fmt": "o", "color": "black", "capsize": 3}
    times.errorbar(size_bytes, 1e6 * seconds, yerr=quartiles, label="measured, quartiles", **style)
    curve = numpy.geomspace(max(size_bytes.min(), 1), size_bytes.max(), 200)
    times.plot(curve, 1e6 * fit(curve), label="ring", **look(0, "color", "linestyle"))
    errors.plot(size_bytes, 100 * (fit(size_bytes) / seconds - 1), linestyle="", **look(0, "color", "marker"))
    ranks = measured.result["ranks"]
    bare = [2e6 * (ranks - 1) * point["seconds"]["median"] for point in messages.result["points"]]
    sizes = [ranks * point["size_bytes"] for point in messages.result["points"]]
    times.plot(sizes, bare, ".:", color=GRAY, label="a ring's messages through sockets alone")
    errors.axhline(0, color=GRAY, linewidth=1)
    times.set(xscale="log", yscale="log", ylabel="all-reduce, µs")
    errors.set(xlabel="bytes of each rank", ylabel="error, %")
    times.legend()
    figure.alt = (
        f"Time of an all-reduce over its size, {len(seconds)} points from {size_bytes[0]:,.0f} "
        f"bytes in {1e6 * seconds[0]:,.0f} µs to {size_bytes[-1]:,.0f} bytes in {1e6 * seconds[-1]:,.0f} µs. {fit}."
    )
    return figure
