"""Figures of predictions: fitted all-reduces, step times and published scaling."""

from collections.abc import Iterable

import numpy

from course.shared.figure import COLORS, GRAY, MARKERS, Figure, band, list_rows, look, styled
from course.topology.prediction import Prediction, points
from course.topology.published import ALWAYS, by_publisher, compared, margin_points
from ddl.errors import InputError

OVERLAP = "from full to no overlap"  # of a band


@styled
def plot_fit(measured, fits, messages=None) -> Figure:
    """Draw a run of `bench_allreduce.py` with one or more fits and, below, each point's relative error.

    With `messages`, a run of `bench_p2p.py`, also draw what a ring's messages take through sockets alone.
    """
    fits = list(fits) if not hasattr(fits, "algorithm") else [fits]
    timed = {
        point["size_bytes"]: point["seconds"]
        for point in measured.result["points"]
        if point["operation"] == "all_reduce"
    }
    size_bytes = numpy.array(sorted(size for size, _ in points(measured)), float)
    seconds, low, high = (
        numpy.array([timed[size][key] for size in size_bytes], float) for key in ("median", "low", "high")
    )
    figure = Figure(9.0, 5.2)
    times, errors = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    quartiles = [1e6 * numpy.maximum(seconds - low, 0), 1e6 * numpy.maximum(high - seconds, 0)]
    style = {"fmt": "o", "color": "black", "capsize": 3}
    times.errorbar(size_bytes, 1e6 * seconds, yerr=quartiles, label="measured, quartiles", **style)
    curve = numpy.geomspace(max(size_bytes.min(), 1), size_bytes.max(), 200)
    for index, one in enumerate(fits):
        times.plot(curve, 1e6 * one(curve), label=one.algorithm, **look(index, "color", "linestyle"))
        errors.plot(size_bytes, 100 * (one(size_bytes) / seconds - 1), linestyle="", **look(index, "color", "marker"))
    if messages:
        ranks = measured.result["ranks"]
        sockets = [point for point in messages.result["points"] if point["path"] == "tcp"]
        bare = [2e6 * (ranks - 1) * point["seconds"]["median"] for point in sockets]
        sizes = [ranks * point["size_bytes"] for point in sockets]
        times.plot(sizes, bare, ".:", color=GRAY, label="a ring's messages through sockets alone")
    errors.axhline(0, color=GRAY, linewidth=1)
    times.set(xscale="log", yscale="log", ylabel="all-reduce, µs")
    errors.set(xlabel="bytes of each rank", ylabel="error, %")
    times.legend()
    figure.alt = (
        f"Time of an all-reduce over its size, {len(seconds)} points from {size_bytes[0]:,.0f} "
        f"bytes in {1e6 * seconds[0]:,.0f} µs to {size_bytes[-1]:,.0f} bytes in {1e6 * seconds[-1]:,.0f} µs. "
        + "; ".join(map(str, fits))
        + "."
    )
    return figure


@styled
def plot_prediction(predictions: Iterable[Prediction], runs=(), margin_points: float | None = None) -> Figure:
    """Draw predicted step times and efficiency by ranks, as a band from no overlap to full overlap.

    `runs` are measured, with the predicted batches. With `margin_points` (`course.topology.clusters.MARGIN_POINTS`),
    the efficiency's band is that many points wide on both sides.
    """
    predictions = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    if not predictions:
        raise InputError("no predictions to draw")
    predictions.sort(key=lambda prediction: prediction.ranks)
    ranks = [prediction.ranks for prediction in predictions]
    figure = Figure(9.0, 4.0)
    steps, efficient = figure.subplots(1, 2)
    times = (
        [1e3 * getattr(prediction, name) for prediction in predictions]
        for name in ("seconds", "full_overlap_s", "no_overlap_s")
    )
    _draw_band(steps, ranks, *times, OVERLAP)
    efficiencies = [100 * prediction.efficiency for prediction in predictions]
    _draw_band(efficient, ranks, efficiencies, *_band(predictions, margin_points))
    base = predictions[0].baseline
    one = base.images_per_s / base.ranks if base else predictions[0].one_images_per_s
    texts = _draw_measured(steps, efficient, runs, one)
    for panel, label in ((steps, "time of a step, ms"), (efficient, "efficiency, %")):
        panel.set(ylabel=label, xlabel="ranks", ylim=(0, 105 if "%" in label else None))
        if max(ranks) > 8:
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter("{x:,.0f}")
        else:
            panel.set_xticks(range(1, max(ranks) + 1))
    efficient.axhline(100, color=GRAY, linestyle=":")
    figure.legend_below(steps, efficient, columns=5)
    figure.alt = (
        "Predicted time of a step and efficiency over ranks. " + "; ".join([*map(str, predictions), *texts]) + "."
    )
    return figure


def _draw_band(panel, ranks, estimate, low, high, label):
    """Draw an estimate and shade the area between its bounds."""
    color = COLORS[0] if label == OVERLAP else COLORS[2]
    ends = [numpy.maximum(numpy.subtract(estimate, low), 0), numpy.maximum(numpy.subtract(high, estimate), 0)]
    panel.errorbar(ranks, estimate, yerr=ends, fmt="none", capsize=4, ecolor=color, alpha=0.6)
    band(panel, ranks, low, high, color, label=label)
    panel.plot(ranks, estimate, label="predicted", **look(0, "color", "marker"))


def _draw_measured(steps, efficient, runs, one_images_per_s):
    """Draw runs relative to the speed of a single rank; return a description."""
    texts = []
    for index, run in enumerate(runs):
        result = run.result
        ranks, milliseconds = result["ranks"], 1e3 * result["global_batch"] / result["images_per_s"]
        percent = 100 * result["images_per_s"] / ranks / one_images_per_s
        style = {"color": COLORS[1], "marker": MARKERS[3], "markersize": 8, "markerfacecolor": "none"}
        for panel, value in ((steps, milliseconds), (efficient, percent)):
            panel.plot([ranks], [value], linestyle="", label=None if index else "measured", **style)
        texts.append(f"measured on {ranks}: {milliseconds:.2f} ms, efficiency {percent:.0f} %")
    return texts


def _band(predictions, margin_points):
    """Return the lower and upper end of the efficiency's band in percent, and its label."""
    if margin_points is None:
        low, high = (
            [100 * getattr(prediction, f"efficiency_{end}_overlap") for prediction in predictions]
            for end in ("no", "full")
        )
        return low, high, OVERLAP
    half = [margin_points * (prediction.efficiency != 1) for prediction in predictions]
    middle = [100 * prediction.efficiency for prediction in predictions]
    low, high = numpy.maximum(numpy.subtract(middle, half), 0), numpy.minimum(numpy.add(middle, half), 100)
    return low, high, "four of five published ones lay so near"


@styled
def plot_published(table=None) -> Figure:
    """Draw published against predicted scaling efficiencies, and the mean error by publisher with two baselines."""
    table = compared() if table is None else table
    scores = by_publisher(table)
    figure = Figure(9.0, 4.6)
    panel, bars = figure.subplots(1, 2, width_ratios=(5, 4))
    ends = numpy.array([55, 101])
    panel.plot(ends, ends, color=GRAY, linewidth=1)
    margin = margin_points()
    panel.fill_between(ends, ends - margin, ends + margin, color=GRAY, alpha=0.2, linewidth=0)
    panel.axhline(ALWAYS, color=GRAY, linestyle=":", linewidth=1)
    for index, (name, group) in enumerate(table.groupby("publisher", sort=False)):
        style = look(index, "marker", "color")
        panel.plot(
            group["predicted_percent"], group["published_percent"], linestyle="", markersize=5, label=name, **style
        )
    panel.set(xlabel="predicted efficiency, %", ylabel="published efficiency, %", xlim=ends)
    places = numpy.arange(len(scores))
    for index, (column, label) in enumerate(
        (("model", "this model"), ("always", f"always {ALWAYS:.0f} %"), ("mean", "the others' mean"))
    ):
        bars.barh(places + 0.27 * (index - 1), scores[column], height=0.25, color=COLORS[index], label=label)
    list_rows(bars, [f"{row['publisher']} ({row['figures']})" for row in scores.to_dict("records")])
    bars.set(xlabel="mean error, points")
    bars.legend()
    panel.legend(fontsize="small", ncols=2, loc="upper left")
    figure.alt = (
        f"Scaling efficiency in percent, published over predicted, of {len(table)} figures, with the band of "
        f"± {margin:.1f} points that should contain four of five. Mean error in points: "
        + "; ".join(
            f"{row['publisher']}: {row['model']:.1f}, always {ALWAYS:.0f} % {row['always']:.1f}, the others' mean "
            f"{row['mean']:.1f}"
            for row in scores.to_dict("records")
        )
        + "."
    )
    return figure
