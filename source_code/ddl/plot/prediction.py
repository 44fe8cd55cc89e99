"""Figures of predictions: the fitted cost of all-reduces, steps over ranks, published scaling."""

from collections.abc import Iterable

import numpy

from ddl.analysis.prediction import Prediction, points
from ddl.analysis.published import ALWAYS, by_publisher, compared
from ddl.errors import InputError
from ddl.plot.picture import COLOURS, GREY, MARKERS, Picture, look, styled


@styled
def plot_fit(measured, fits) -> Picture:
    """Draw measured all-reduces, what one or several fits say of them and, below, each point's relative error.

    `measured` is a run of `bench_allreduce.py`, drawn with the quartiles of its repeats, or pairs of (bytes, seconds).
    Fits that coincide, as those of one number of ranks do, are drawn once.
    """
    fits = list(fits) if not hasattr(fits, "algorithm") else [fits]
    spread = None
    if hasattr(measured, "result"):
        spread = {
            point["size_bytes"]: point["seconds"]
            for point in measured.result["points"]
            if point["operation"] == "all_reduce"
        }
        measured = points(measured)
    size_bytes, seconds = (numpy.array(column, float) for column in zip(*sorted(measured)))
    picture = Picture(9.0, 5.2)
    times, errors = picture.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    micro = 1e6 * seconds
    if spread:
        low, high = (1e6 * numpy.array([spread[int(size)][key] for size in size_bytes]) for key in ("low", "high"))
        times.errorbar(
            size_bytes,
            micro,
            yerr=[numpy.maximum(micro - low, 0), numpy.maximum(high - micro, 0)],
            fmt="o",
            color="black",
            capsize=3,
            label="measured, quartiles",
        )
    else:
        times.plot(size_bytes, micro, "o", color="black", label="measured")
    curve = numpy.geomspace(max(size_bytes.min(), 1), size_bytes.max(), 200)
    lines = {}
    for one in fits:
        drawn = next((key for key in lines if numpy.allclose(key(curve), one(curve), rtol=1e-3)), one)
        lines.setdefault(drawn, []).append(one)
    for index, (one, same) in enumerate(lines.items()):
        style = look(index, "color", "linestyle")
        times.plot(curve, 1e6 * one(curve), label=", ".join(fit.algorithm for fit in same), **style)
        errors.plot(size_bytes, 100 * (one(size_bytes) / seconds - 1), linestyle="", **look(index, "color", "marker"))
    errors.axhline(0, color=GREY, linewidth=1)
    times.set(xscale="log", yscale="log", ylabel="all-reduce, µs")
    errors.set(xlabel="bytes of each rank", ylabel="error, %")
    times.legend()
    picture.alt = (
        f"Time of an all-reduce over its size, {len(seconds)} points from {size_bytes[0]:,.0f} "
        f"bytes in {micro[0]:,.0f} µs to {size_bytes[-1]:,.0f} bytes in {micro[-1]:,.0f} µs. "
        + "; ".join(map(str, fits))
        + "."
    )
    return picture


@styled
def plot_prediction(predictions: Iterable[Prediction], runs=(), margin_points: float | None = None) -> Picture:
    """Draw predicted steps and efficiency over ranks, in a band from no overlap to full overlap.

    `runs` are measured ones with the predicted batches. With `margin_points` the band of the efficiency is so many
    points wide to either side: `ddl.analysis.clusters.MARGIN_POINTS`.
    """
    predictions = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    if not predictions:
        raise InputError("there are no predictions to draw")
    predictions.sort(key=lambda prediction: prediction.ranks)
    ranks = [prediction.ranks for prediction in predictions]
    picture = Picture(9.0, 4.0)
    steps, efficient = picture.subplots(1, 2)
    blue = look(0, "color", "marker")
    ends = "from full to no overlap"
    for panel, estimate, low, high, band in (
        (
            steps,
            [1e3 * prediction.seconds for prediction in predictions],
            [1e3 * prediction.full_overlap_s for prediction in predictions],
            [1e3 * prediction.no_overlap_s for prediction in predictions],
            ends,
        ),
        (efficient, [100 * prediction.efficiency for prediction in predictions], *_band(predictions, margin_points)),
    ):
        colour = COLOURS[0] if band == ends else COLOURS[2]
        panel.errorbar(
            ranks,
            estimate,
            fmt="none",
            capsize=4,
            ecolor=colour,
            alpha=0.6,
            yerr=[numpy.maximum(numpy.subtract(estimate, low), 0), numpy.maximum(numpy.subtract(high, estimate), 0)],
        )
        panel.fill_between(ranks, low, high, color=colour, alpha=0.15, linewidth=0, label=band)
        panel.plot(ranks, estimate, label="predicted", **blue)
    texts = []
    base = predictions[0].baseline
    one_s = base.images_per_s / base.ranks if base else predictions[0].one_images_per_s
    for index, run in enumerate(runs):
        result = run.result
        measured_s = result["global_batch"] / result["images_per_s"]
        style = {
            "color": COLOURS[1],
            "marker": MARKERS[3],
            "markersize": 8,
            "linestyle": "",
            "markerfacecolor": "none",
            "label": "measured" if not index else None,
        }
        steps.plot([result["ranks"]], [1e3 * measured_s], **style)
        percent = 100 * result["images_per_s"] / result["ranks"] / one_s
        efficient.plot([result["ranks"]], [percent], **style)
        texts.append(f"measured on {result['ranks']}: {1e3 * measured_s:.2f} ms, efficiency {percent:.0f} %")
    for panel, label in ((steps, "time of a step, ms"), (efficient, "efficiency, %")):
        panel.set(ylabel=label, xlabel="ranks", ylim=(0, 105 if "%" in label else None))
        if max(ranks) > 8:
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter("{x:,.0f}")
        else:
            panel.set_xticks(range(1, max(ranks) + 1))
    efficient.axhline(100, color=GREY, linestyle=":")
    shown = {label: handle for panel in (steps, efficient) for handle, label in zip(*panel.get_legend_handles_labels())}
    picture.legend(shown.values(), shown, loc="outside lower center", ncols=len(shown))
    picture.alt = (
        "Predicted time of a step and efficiency over ranks. " + "; ".join([*map(str, predictions), *texts]) + "."
    )
    return picture


def _band(predictions, margin_points):
    """Return the lower and upper end of the efficiency's band in percent, and its label."""
    if margin_points is None:
        low, high = (
            [100 * getattr(prediction, f"efficiency_{end}_overlap") for prediction in predictions]
            for end in ("no", "full")
        )
        return low, high, "from full to no overlap"
    half = [margin_points * (prediction.efficiency != 1) for prediction in predictions]
    middle = [100 * prediction.efficiency for prediction in predictions]
    low, high = numpy.maximum(numpy.subtract(middle, half), 0), numpy.minimum(numpy.add(middle, half), 100)
    return low, high, "four of five published ones lay so near"


@styled
def plot_published(table=None) -> Picture:
    """Draw published scaling efficiencies over the predicted, and the mean error by publisher beside two baselines."""
    table = compared() if table is None else table
    scores = by_publisher(table)
    picture = Picture(9.0, 4.6)
    panel, bars = picture.subplots(1, 2, width_ratios=(5, 4))
    ends = (35, 101)
    panel.plot(ends, ends, color=GREY, linewidth=1)
    panel.axhline(ALWAYS, color=GREY, linestyle=":", linewidth=1)
    for index, (name, group) in enumerate(table.groupby("publisher", sort=False)):
        predicted = group["predicted_percent"].to_numpy()
        panel.errorbar(
            predicted,
            group["published_percent"],
            xerr=[predicted - group["low_percent"], group["high_percent"] - predicted],
            fmt="none",
            ecolor=look(index, "color")["color"],
            alpha=0.25,
        )
        panel.plot(
            predicted,
            group["published_percent"],
            linestyle="",
            markersize=6,
            label=name,
            **look(index, "marker", "color"),
        )
    panel.set(xlabel="predicted efficiency, %", ylabel="published efficiency, %", xlim=(55, 101), ylim=ends)
    places = numpy.arange(len(scores))
    for index, (column, label) in enumerate(
        (("model", "this model"), ("always", f"always {ALWAYS:.0f} %"), ("mean", "the others' mean"))
    ):
        bars.barh(places + 0.27 * (index - 1), scores[column], height=0.25, color=COLOURS[index], label=label)
    bars.set_yticks(places, [f"{row['publisher']} ({row['figures']})" for row in scores.to_dict("records")])
    bars.set(xlabel="mean error, points", ylim=(len(scores) - 0.5, -0.5))
    bars.legend()
    panel.legend(fontsize="small")
    picture.alt = (
        "Scaling efficiency in percent, published over predicted, with the interval that is to contain four of five: "
        + "; ".join(
            f"{row['network']} on {row['gpus']} GPUs ({row['study']}): published {row['published_percent']:.0f}, "
            f"predicted {row['predicted_percent']:.0f} ({row['low_percent']:.0f} to {row['high_percent']:.0f})"
            for row in table.to_dict("records")
        )
        + ". Mean error in points: "
        + "; ".join(
            f"{row['publisher']}: {row['model']:.1f}, always {ALWAYS:.0f} % {row['always']:.1f}, the others' mean "
            f"{row['mean']:.1f}"
            for row in scores.to_dict("records")
        )
        + "."
    )
    return picture
