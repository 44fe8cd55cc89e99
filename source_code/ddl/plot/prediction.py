"""Figures of predictions: the fitted cost of all-reduces, steps over ranks, published scaling."""

from collections.abc import Iterable

import numpy

from ddl.analysis.clusters import published
from ddl.analysis.prediction import Prediction, points
from ddl.errors import InputError
from ddl.plot.picture import COLOURS, GREY, MARKERS, Picture, look, styled

__all__ = ["plot_fit", "plot_prediction", "plot_published"]


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
def plot_prediction(predictions: Iterable[Prediction], runs=()) -> Picture:
    """Draw predicted steps and efficiency over ranks, in a band from no overlap to full overlap.

    `runs` are measured ones with the predicted batches.
    """
    predictions = [predictions] if isinstance(predictions, Prediction) else list(predictions)
    if not predictions:
        raise InputError("there are no predictions to draw")
    predictions.sort(key=lambda prediction: prediction.ranks)
    ranks = [prediction.ranks for prediction in predictions]
    picture = Picture(9.0, 4.0)
    steps, efficient = picture.subplots(1, 2)
    blue = look(0, "color", "marker")
    for panel, estimate, low, high in (
        (
            steps,
            [1e3 * prediction.seconds for prediction in predictions],
            [1e3 * prediction.full_overlap_s for prediction in predictions],
            [1e3 * prediction.no_overlap_s for prediction in predictions],
        ),
        (
            efficient,
            [100 * prediction.efficiency for prediction in predictions],
            [100 * prediction.efficiency_no_overlap for prediction in predictions],
            [100 * prediction.efficiency_full_overlap for prediction in predictions],
        ),
    ):
        panel.errorbar(
            ranks,
            estimate,
            fmt="none",
            capsize=4,
            ecolor=COLOURS[0],
            alpha=0.6,
            yerr=[numpy.maximum(numpy.subtract(estimate, low), 0), numpy.maximum(numpy.subtract(high, estimate), 0)],
        )
        panel.fill_between(ranks, low, high, color=COLOURS[0], alpha=0.15, linewidth=0)
        panel.plot(ranks, estimate, label="predicted; band: from no to full overlap", **blue)
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
    picture.legend(*steps.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    picture.alt = (
        "Predicted time of a step and efficiency over ranks. " + "; ".join([*map(str, predictions), *texts]) + "."
    )
    return picture


@styled
def plot_published(compared=None) -> Picture:
    """Draw published scaling efficiencies beside the predicted: a mark each, and a bar from no to full overlap."""
    compared = published() if compared is None else compared
    rows = compared.to_dict("records")
    picture = Picture(9.0, 1.4 + 0.32 * len(rows))
    panel = picture.subplots()
    places = numpy.arange(len(rows))
    low, high = (compared[f"{key}_overlap_percent"].to_numpy() for key in ("no", "full"))
    panel.barh(
        places,
        high - low,
        left=low,
        height=0.5,
        color=COLOURS[0],
        alpha=0.2,
        label="predicted: from no to full overlap",
    )
    panel.plot(
        compared["predicted_percent"],
        places,
        linestyle="",
        **look(0, "marker", "color"),
        markersize=7,
        label="predicted: estimate",
    )
    panel.plot(
        compared["published_percent"],
        places,
        linestyle="",
        marker=MARKERS[3],
        color=COLOURS[1],
        markersize=8,
        label="published",
    )
    panel.set_yticks(places, [f"{row['network']}, {row['gpus']} GPUs ({row['study']})" for row in rows])
    panel.set(xlabel="scaling efficiency, %", xlim=(40, 102), ylim=(len(rows) - 0.5, -0.5))
    picture.legend(*panel.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    picture.alt = (
        "Scaling efficiency in percent, published and predicted. "
        + "; ".join(
            f"{row['network']} on {row['gpus']} GPUs ({row['study']}): published "
            f"{row['published_percent']:.0f}, predicted {row['predicted_percent']:.0f} ("
            f"{row['no_overlap_percent']:.0f} without overlap, {row['full_overlap_percent']:.0f} with "
            "full overlap)"
            for row in rows
        )
        + "."
    )
    return picture
