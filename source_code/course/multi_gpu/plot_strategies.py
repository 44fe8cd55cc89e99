"""Figure of the differences between strategies."""

import numpy

from course.multi_gpu.agreement import differences, kept_weights
from course.shared.figure import GRAY, Figure, look, styled
from ddl.display.style import data_label


@styled
def plot_agreement(runs) -> Figure:
    """Draw the distance between several strategies' weights and the first run's, by update.

    Runs with bitwise equal weights have no points.
    """
    first, *others = runs = list(runs)
    kept = [kept_weights(run) for run in runs]
    steps = sorted(set.intersection(*map(set, kept)))
    gaps = numpy.array([[relative for _, _, relative in differences(runs, kept, step)[1:]] for step in steps])
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    for index, run in enumerate(others):
        differs = gaps[:, index] > 0
        panel.plot(numpy.array(steps)[differs], gaps[differs, index], label=run.name, **look(index))
    precision = numpy.finfo(numpy.float32).eps
    panel.axhline(precision, color=GRAY, linestyle=":")
    panel.annotate("one unit of float32's last place", (steps[-1], precision), ha="right", va="top")
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="optimizer steps",
        ylim=(precision / 4, None),
        ylabel=f"largest difference from {first.name}\n÷ largest weight",
    )
    panel.set_xticks(steps, [f"{step:,}" for step in steps], minor=False)
    panel.xaxis.set_minor_formatter("")
    panel.set_title(f"data: {data_label(first.result.get('data'))}")
    panel.legend()
    figure.alt = (
        f"Largest difference of a weight from those of {first.name}, divided by the largest "
        f"weight, after {', '.join(map(str, steps))} updates: "
        + "; ".join(
            f"{run.name} {', '.join(f'{gap:.0e}' for gap in gaps[:, index])}" for index, run in enumerate(others)
        )
        + "."
    )
    return figure
