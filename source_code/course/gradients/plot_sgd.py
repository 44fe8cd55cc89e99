"""Figures of training on random batches, computed by `sgd`."""

import math
from collections.abc import Sequence

import numpy
from matplotlib.colors import BoundaryNorm, ListedColormap

from course.gradients import sgd
from course.shared.figure import COLORS, GRAY, Figure, look, styled

OUTCOMES = {"settles narrowly": COLORS[2], "settles widely": COLORS[6], "diverges": COLORS[1]}


@styled
def plot_map(data, sizes: Sequence[int], rate: float, low: float = 0.0005, high: float = 0.512) -> Figure:
    """Draw a map of learning rate and batch size: where the spread is at most that of single points at `rate`.

    It also shows where the spread is larger, and where training diverges.
    """
    sizes, rates = numpy.asarray(sizes), numpy.geomspace(low, high, 181)
    near = sgd.settled_spread(rate, 1, data)
    spreads = numpy.array([sgd.settled_spread(rates, size, data) for size in sizes])
    outcomes = numpy.where(numpy.isinf(spreads), 2, spreads > near)  # numbers of `OUTCOMES`
    borders = [sgd.rate_border(size, data) for size in sizes]
    figure = Figure(8.5, 4.4)
    panel = figure.subplots()
    edges = numpy.sqrt(rates[1:] * rates[:-1])
    panel.pcolormesh(
        [low, *edges, high],
        numpy.arange(len(sizes) + 1) - 0.5,
        outcomes,
        alpha=0.45,
        cmap=ListedColormap([*OUTCOMES.values()]),
        norm=BoundaryNorm([-0.5, 0.5, 1.5, 2.5], 3),
        linewidth=0,
        rasterized=True,
    )
    for name, color in OUTCOMES.items():
        panel.plot([], [], "s", color=color, alpha=0.6, markersize=10, label=name)
    panel.plot(rate * sizes, range(len(sizes)), "k--", label="rate in proportion to batch size")
    panel.plot(rate * numpy.sqrt(sizes), range(len(sizes)), color=GRAY, linestyle="-.", label="… to its square root")
    panel.axvline(
        sgd.rate_border(math.inf, data), color="black", linestyle=":", label="1 / mean(x²): the limit for all points"
    )
    panel.set_yticks(range(len(sizes)), [str(size) for size in sizes])
    panel.set(
        xscale="log",
        xlim=(low, high),
        ylim=(-0.5, len(sizes) - 0.5),
        axisbelow=False,
        xlabel="learning rate",
        ylabel="batch size, points",
        title=f"computed for {len(data)} points; narrowly: a spread of {near:.2g} at most",
    )
    panel.grid(False)
    figure.legend(loc="outside lower center", ncols=3)
    texts = [
        f"batches of {size}: narrowly up to {sgd.rate_of_spread(near, size, data):.3g}, divergent from {border:.3g}"
        for size, border in zip(sizes, borders)
    ]
    figure.alt = f"How training ends, by learning rate and batch size. {'; '.join(texts)}."
    return figure


@styled
def plot_one_step(sizes: Sequence[int]) -> Figure:
    """Draw the progress of B single steps against one step at B times the rate.

    Progress is the share of the distance to the best weight, on average: one step at rate r covers ``2 r mean(x²)`` , B
    steps ``1 - (1 - that / B)^B``.
    """
    part = numpy.linspace(0, 2, 201)
    figure = Figure(7.5, 4.4)
    panel = figure.subplots()
    panel.plot(part, part, color="black", label="one step of B times the rate")
    texts = []
    for index, size in enumerate(sizes):
        steps = 1 - (1 - part / size) ** size
        panel.plot(part, steps, label=f"{size} steps, a point each", **look(index, "color", "linestyle"))
        texts.append(f"{size} steps go {steps[10]:.3g}, {steps[100]:.3g} and {steps[200]:.3g}")
    panel.axhline(1, color=GRAY, linestyle=":")
    panel.annotate("the best weight", (2, 1), ha="right", va="bottom", color=GRAY)
    panel.set(
        xlim=(0, 2),
        ylim=(0, 2),
        xlabel="distance covered by one step of B times the rate (1: to the best weight)",
        ylabel="distance covered by B single steps",
        title="from 2 on, one step lands no nearer than it began",
    )
    panel.legend(loc="upper left")
    figure.alt = (
        f"Where one step of a batch goes {part[10]:g}, {part[100]:g} and {part[200]:g} of the way to the best weight, "
        f"single steps with the same samples go less. {'; '.join(texts)}."
    )
    return figure
