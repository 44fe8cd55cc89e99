"""Figures of text classification: precision against recall, and where overfitting begins."""

import numpy

from course.shared.figure import GRAY, MARKERS, Figure, look, styled
from ddl.display.style import data_of
from ddl.errors import InputError


@styled
def plot_precision_recall(runs) -> Figure:
    """Draw precision against recall on the test part, a line for each finished run of ``train_text.py``.

    A dot marks a threshold of one half, a cross the best one on the validation part. The dotted line is the precision
    of guessing: the share of the class that is sought.
    """
    runs = [run for run in runs if run.result is not None and "precision_recall" in run.result]
    if not runs:
        raise InputError("none of these is a finished run of train_text.py")
    figure = Figure(7.5, 4.6)
    panel = figure.subplots()
    texts = []
    for index, run in enumerate(runs):
        curve, color = run.result["precision_recall"], look(index, "color")
        recall, precision = (100 * numpy.array(curve[name]) for name in ("recall", "precision"))
        style = look(index, "color", "linestyle")
        panel.plot(recall, precision, label=run.name, drawstyle="steps-pre", **style)
        for point, marker in (("test", MARKERS[0]), ("tuned", MARKERS[-1])):
            figures = run.result[point]
            if figures["precision"] is not None:
                panel.plot([100 * figures["recall"]], [100 * figures["precision"]], marker, markersize=8, **color)
        texts.append(f"{run.name}: {_at(run.result['test'])}; {_at(run.result['tuned'])}")
    guess = 100 * (1 - runs[0].result["test"]["majority"])  # the class that is sought is the smaller one
    panel.axhline(guess, color=GRAY, linestyle=":", linewidth=1)
    panel.annotate(f"guessing: {guess:.1f} %", (1, guess), va="bottom", fontsize=10)
    panel.set(
        xlabel="recall: share of the insincere ones that were found, %",
        ylabel="precision: share of those found\nthat are insincere, %",
        xlim=(0, 101),
        ylim=(0, 101),
    )
    data = data_of(runs)
    panel.set_title(f"dot: threshold 0.5; cross: best threshold of the validation part\ndata: test part of {data}")
    if len(runs) > 1:
        panel.legend()
    figure.alt = (
        f"Precision against recall on the test part of {data}. {'. '.join(texts)}. "
        f"Guessing has a precision of {guess:.1f} % at any recall."
    )
    return figure


def _at(figures):
    where = f"at threshold {figures['threshold']:.2f}"
    if figures["precision"] is None:
        return f"{where} nothing is found"
    return f"{where} precision {figures['precision']:.1%}, recall {figures['recall']:.1%}, F1 {figures['f1']:.3f}"


@styled
def plot_overfitting(run) -> Figure:
    """Draw loss and accuracy of the training and validation parts of a run of ``train_text.py`` over epochs.

    A vertical line marks the lowest validation loss, from which the network overfits.
    """
    if run.result is None or "validation_loss" not in run.history:
        raise InputError(f"run {run.name} has no validation losses: is it a finished run of train_text.py?")
    rows = run.history.astype(float)
    lowest = rows.loc[rows["validation_loss"].idxmin()]
    figure = Figure(9.0, 4.0)
    panels = figure.subplots(1, 2)
    for panel, name, scale, label in (
        (panels[0], "loss", 1, "cross-entropy"),
        (panels[1], "accuracy", 100, "accuracy, %"),
    ):
        for index, (prefix, part) in enumerate((("", "training"), ("validation_", "validation"))):
            panel.plot(rows["epoch"], scale * rows[prefix + name], **look(index), label=part)
        panel.axvline(lowest["epoch"], color=GRAY, linestyle=":", linewidth=1.2)
        panel.set(xlabel="epochs", ylabel=label, xlim=(0, None))
    majority = 100 * run.result["test"]["majority"]
    panels[1].axhline(majority, color=GRAY, linewidth=1, linestyle="-.")
    panels[1].annotate(
        f"majority: {majority:.1f} %", (rows["epoch"].iloc[-1], majority), ha="right", va="bottom", fontsize=10
    )
    panels[0].set_title(f"lowest validation loss: epoch {lowest['epoch']:.0f}")
    panels[0].legend()
    figure.suptitle(f"{run.name}; data: {data_of([run])}", fontsize=11)
    last = rows.iloc[-1]
    figure.alt = (
        f"Loss and accuracy over {last['epoch']:.0f} epochs, on {data_of([run])}. The "
        f"validation loss is lowest after epoch {lowest['epoch']:.0f}, {lowest['validation_loss']:.3f} "
        f"(training {lowest['loss']:.3f}), and {last['validation_loss']:.3f} at the end (training "
        f"{last['loss']:.3f}). Validation accuracy at the end is "
        f"{last['validation_accuracy']:.1%}; always giving the more frequent answer has "
        f"{majority / 100:.1%}."
    )
    return figure
