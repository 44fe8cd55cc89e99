"""Figures that compare all-reduce algorithms, predicted and measured."""

import math

import numpy

from course.shared import cost
from course.shared.figure import COLORS, Figure, look, styled
from course.topology import race

APART = 1.1  # horizontal offset between algorithms' marks, as a ratio of sizes


@styled
def plot_algorithms(ranks: int, alpha_s: float, beta_s_per_byte: float) -> Figure:
    """Draw the predicted time of an all-reduce by message size, for each algorithm of `course.shared.cost`."""
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    sizes = numpy.geomspace(1, 2**30, 400)
    texts = []
    for number, (name, seconds) in enumerate(cost.ALGORITHMS.items()):
        times = 1e3 * seconds(sizes, ranks, alpha_s, beta_s_per_byte)
        style = {**look(number), "marker": ""}
        panel.plot(sizes, times, label=name, **style)
        texts.append(f"{name} {times[0]:.3g} ms for a byte, {times[-1]:.3g} for 1 GiB")
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="data of a rank, bytes",
        ylabel="time, ms",
        title=f"{ranks} ranks, {1e6 * alpha_s:g} µs a message, {1e-9 / beta_s_per_byte:g} GB/s: the model",
    )
    panel.legend()
    figure.alt = f"Time of an all-reduce on {ranks} ranks by the model: {'; '.join(texts)}."
    return figure


@styled
def plot_race(run) -> Figure:
    """Draw a run of ``race_allreduce.py``: times by message size, and the speedup over the ring.

    Marks are medians with quartiles; dashed lines are the model, fitted to the ring only. Vertical lines show where the
    ring overtakes recursive doubling: measured, with a band for quartiles, and predicted.
    """
    result, fit = run.result, race.model(run)
    names = list(dict.fromkeys(point["algorithm"] for point in result["points"]))
    figure = Figure(9.0, 6.2)
    upper, lower = figure.subplots(2, 1, sharex=True)
    for number, name in enumerate(names):
        points = [point for point in result["points"] if point["algorithm"] == name]
        sizes = numpy.array([point["size_bytes"] for point in points], float)
        beside = sizes * APART ** (number - (len(names) - 1) / 2)
        style = {**look(number), "linestyle": ""}
        model = {"color": COLORS[number], "linestyle": "--", "linewidth": 1.2}
        predicted = cost.ALGORITHMS[name](sizes, result["ranks"], fit.alpha_s, fit.beta_s_per_byte)
        _quartiles(upper, beside, [point["seconds"] for point in points], 1e3, style, f"{name}, measured")
        upper.plot(sizes, 1e3 * predicted, label=f"{name}, {'fitted' if name == race.RING else 'predicted'}", **model)
        if name != race.RING:
            _quartiles(lower, beside, [point["ahead_of"][race.RING] for point in points], 1, style)
            lower.plot(sizes, fit(sizes) / predicted, **model)
    lower.axhline(1, color="black", linewidth=1)
    found = race.crossover(run, race.DOUBLING, race.RING)
    expected = race.model_crossover(race.DOUBLING, race.RING, result["ranks"], fit)
    ends = min(sizes), max(sizes)
    for panel in (upper, lower):
        panel.axvspan(*numpy.clip((found.low, found.high), *ends), color="gray", alpha=0.2, linewidth=0)
        for size, line in ((found.size_bytes, "-"), (expected, "--")):
            if ends[0] <= size <= ends[1]:
                panel.axvline(size, color="gray", linestyle=line, linewidth=1.2)
    upper.set(yscale="log", ylabel="time, ms", title=f"all-reduce by {result['ranks']} ranks, {result['transport']}")
    lower.set(xscale="log", yscale="log", xlabel="data of a rank, bytes", ylabel="times as fast as the ring")
    lower.set_yticks([0.5, 1, 2, 4], labels=["½", "1", "2", "4"])
    lower.minorticks_off()
    figure.legend_below(upper, columns=3, fontsize=9)
    figure.alt = (
        f"Times of three all-reduce algorithms on {result['ranks']} ranks over message size, medians and quartiles. "
        f"The ring overtakes recursive doubling {_at(found.size_bytes)}, by quartiles between {_size(found.low)} and "
        f"{_size(found.high)}; by the model {_at(expected)}."
    )
    return figure


def _quartiles(panel, sizes, spreads, scale, style, label=None):
    low, median, high = (scale * numpy.array([spread[key] for spread in spreads]) for key in ("low", "median", "high"))
    panel.plot(sizes, median, label=label, **style)
    panel.errorbar(sizes, median, (median - low, high - median), fmt="none", ecolor=style["color"], capsize=3)


def _size(size_bytes):
    return "beyond the largest size" if math.isinf(size_bytes) else f"{size_bytes:,.0f} bytes"


def _at(size_bytes):
    return "at no measured size" if math.isinf(size_bytes) else f"at {size_bytes:,.0f} bytes"
