"""Figures of the gradient lesson. A data set is a sequence of points; `sizes` are points per batch."""

from collections.abc import Callable, Sequence

import numpy
from matplotlib.patches import Rectangle

from course.gradients import descent
from course.shared import ring
from course.shared.figure import COLORS, GRAY, Figure, frame, look, styled
from ddl.display.style import is_interactive

BLUE, ORANGE = COLORS[:2]
WEIGHTS = (-1.0, 3.0)  # range of the loss curve


def slider(figure: Callable, name: str, low: float, high: float, start: float):
    """Show a figure with a slider for one of its numbers, on a logarithmic scale.

    `figure` is a function that returns a `Figure` and takes the number by keyword as `name`. The figure is an output of
    the cell, so that a saved notebook keeps the last one. Without interaction (papermill, ``DDL_VIEW=plain``), the
    result is the `Figure` at `start`.
    """
    if not is_interactive():
        return figure(**{name: start})
    import ipywidgets as widgets
    from IPython.display import display

    ends = {"min": numpy.log10(low), "max": numpy.log10(high)}
    style = {"description": name, "readout_format": ".4f", "layout": {"width": "500px"}}
    handle = widgets.FloatLogSlider(value=start, step=0.02, **ends, **style)
    display(handle)
    shown = display(figure(**{name: start}), display_id=True)
    handle.observe(lambda change: shown.update(figure(**{name: change["new"]})), "value")
    return None


# ---------------------------------------------------------------- one worker


@styled
def plot_descent(data, lr: float, w: float = -0.5, iterations: int = 12, gradient=descent.gradient) -> Figure:
    """Draw the loss curve with full-batch steps from `w`, and the weight over steps."""
    path = descent.descend(w, lr, [data], iterations, gradient)
    figure = Figure(9.0, 3.8)
    curve, time = figure.subplots(1, 2, width_ratios=(3, 2))
    weights = numpy.linspace(*WEIGHTS, 201)
    curve.plot(weights, descent.loss(weights, data), color=BLUE)
    curve.plot(
        path, descent.loss(path, data), "o--", color=ORANGE, linewidth=1.2, markersize=6, label="one step after another"
    )
    curve.plot(path[:1], descent.loss(path[:1], data), "s", color=GRAY, markersize=8, label="the start")
    top = descent.loss(numpy.array(WEIGHTS), data).max()
    curve.set(
        xlim=WEIGHTS, ylim=(-0.03 * top, 1.05 * top), xlabel="weight w", ylabel="loss", title=f"learning rate {lr:.4g}"
    )
    curve.legend(loc="upper center", frameon=True)
    time.plot(path, "o--", color=ORANGE, linewidth=1.2)
    time.axhline(descent.best_weight(data), color=BLUE, linestyle=":", label="the best weight")
    time.set(
        ylim=WEIGHTS,
        xlim=(-0.5, iterations + 0.5),
        xlabel="step",
        ylabel="weight w",
        title=f"each step: distance × {descent.pass_factor(lr, [data]):.3g}",
    )
    time.legend(loc="lower right", frameon=True)
    inside = (WEIGHTS[0] <= path) & (path <= WEIGHTS[1])
    left = "" if inside.all() else f" It leaves the figure at step {numpy.argmin(inside)}."
    figure.alt = (
        f"The loss over the weight, a parabola with its minimum at "
        f"{descent.best_weight(data):.3g}. From {w:g}, {iterations} steps with learning rate "
        f"{lr:.4g} end at {path[-1]:.4g}.{left}"
    )
    return figure


@styled
def plot_training(data_sets, lr: float, passes: int = 40, w: float = 0.0) -> Figure:
    """Draw the weight over single-point training from `w`, for several data sets by name at one learning rate."""
    figure = Figure(8.0, 3.8)
    panel = figure.subplots()
    texts = []
    for index, (label, data) in enumerate(data_sets.items()):
        batches = descent.batches_of(data, 1)
        path = descent.descend(w, lr, batches, passes * len(batches))
        ends, best = path[:: len(batches)], descent.best_weight(data)
        panel.plot(numpy.arange(len(path)) / len(batches), path, linewidth=0.7, alpha=0.6, **look(index, "color"))
        panel.plot(ends, linestyle="", label=label, **look(index, "color", "marker"))
        texts.append(f"{label}: from {w:g} to {ends[-1]:.4g}, best weight {best:.4g}")
        panel.axhline(best, color=GRAY, linestyle=":", label=None if index else "the best weight")
    panel.set(
        xlabel="passes over the data",
        ylabel="weight w",
        xlim=(0, passes),
        title=f"learning rate {lr:.4g}; a mark at the end of each pass",
    )
    panel.legend()
    figure.alt = f"The weight over {passes} passes at learning rate {lr:.4g}. {'; '.join(texts)}."
    return figure


# ---------------------------------------------------------------- noise and batches


@styled
def plot_spread(data, w: float, sizes: Sequence[int], draws: int = 2000) -> Figure:
    """Draw how averaging narrows gradients at the weight `w`: measured on `draws` random batches, and by 1/√B."""
    sizes = numpy.asarray(sizes)
    one, count = descent.gradients(w, data).std(), len(data)
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    panel.plot(sizes, one / numpy.sqrt(sizes), color=GRAY, linestyle=":", label="one point's spread ÷ √B")
    texts = []
    for index, (replace, label) in enumerate(((True, "drawn with replacement"), (False, "drawn without"))):
        spread = [descent.batch_gradients(w, data, size, draws, seed=size, replace=replace).std() for size in sizes]
        spread = numpy.array(spread)
        # The full batch has no spread except rounding, so it does not fit a logarithmic axis.
        some = spread > 1e-9 * one
        panel.plot(sizes[some], spread[some], label=label, **look(index))
        texts.append(
            f"{label} it falls from {spread[0]:.3g} at batches of {sizes[0]} to "
            f"{spread[-1]:.2g} at batches of {sizes[-1]}"
        )
    labels = {"xlabel": "batch size B, points", "ylabel": "standard deviation of the gradient"}
    title = f"measured on {draws:,} batches of each size, out of {count} points"
    frame(panel, x=sizes, y="{x:g}", title=title, **labels)
    panel.legend()
    figure.alt = (
        f"Spread of batch gradients at w = {w:g}: {'; '.join(texts)}. "
        f"One point's spread ÷ √B would be {one / numpy.sqrt(sizes[-1]):.2g}."
    )
    return figure


@styled
def plot_best_rate(data, weights: Sequence[float], sizes: Sequence[int], draws: int = 20_000) -> Figure:
    """Draw the best single step's learning rate against batch size, measured on `draws` batches and predicted."""
    sizes = numpy.asarray(sizes)
    most = descent.rate_limit(data) / 2
    figure = Figure(8.5, 4.4)
    panel = figure.subplots()
    texts = []
    for index, w in enumerate(weights):
        scale = descent.noise_scale(w, data)
        panel.plot(sizes, most / (1 + scale / sizes), **look(index, "color", "linestyle"))
        tried = [descent.best_rate(w, data, size, draws, seed=size) for size in sizes]
        style = {"linestyle": "", "markersize": 7, **look(index, "color", "marker")}
        panel.plot(sizes, tried, label=f"from w = {w:g}: noise scale {scale:.3g}", **style)
        texts.append(
            f"from w = {w:g}, where the noise scale is {scale:.3g}, it rises from "
            f"{tried[0]:.2g} at batches of {sizes[0]} to {tried[-1]:.2g} at {sizes[-1]}"
        )
    start = most / (1 + scale / sizes[0])
    linear = start * sizes / sizes[0]
    below = linear < 1.5 * most
    panel.plot(sizes[below], linear[below], color=GRAY, linestyle=":", label="in proportion to batch size")
    panel.axhline(most, color="black", linewidth=1)
    panel.annotate("the best with no noise", (sizes[0], most), va="bottom")
    labels = {"xlabel": "batch size, points", "ylabel": "learning rate of the best step"}
    title = f"dots: tried on {draws:,} random batches each; curves: the noise-scale model"
    frame(panel, x=sizes, y=[0.001, 0.01, 0.1], title=title, **labels)
    panel.legend(loc="lower right")
    figure.alt = f"The learning rate of the best single step. {'; '.join(texts)}. With no noise it would be {most:.2g}."
    return figure


# ---------------------------------------------------------------- several workers


@styled
def plot_ring(ranks: int = 4) -> Figure:
    """Draw a ring all-reduce step by step: the number of ranks whose data each chunk contains."""
    states = ring.contributions(ranks)
    rows = -(-len(states) // ranks)
    figure = Figure(9.0, 0.4 + 2.35 * rows)
    panels = figure.subplots(rows, ranks, squeeze=False)
    for panel in panels.flat[len(states) :]:
        panel.axis("off")
    for step, (panel, state) in enumerate(zip(panels.flat, states)):
        panel.imshow(state, cmap="Blues", vmin=0, vmax=2.2 * ranks)
        for rank, chunk in numpy.ndindex(state.shape):
            changed = step > 0 and states[step - 1][rank, chunk] != state[rank, chunk]
            panel.text(
                chunk, rank, state[rank, chunk], ha="center", va="center", fontweight="bold" if changed else "normal"
            )
            if changed:
                corner = (chunk - 0.46, rank - 0.46)
                panel.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=ORANGE, linewidth=2))
        phase = "reduce-scatter" if step < ranks else "all-gather"
        panel.set_title("start" if step == 0 else f"step {step - 1}: {phase}", fontsize=10)
        panel.set(xticks=range(ranks), yticks=range(ranks))
        panel.grid(False)
        panel.tick_params(length=0)
    for panel in panels[:, 0]:
        panel.set_ylabel("rank")
    for panel in panels.flat[max(0, len(states) - ranks) : len(states)]:
        panel.set_xlabel("chunk")
    figure.suptitle("how many ranks' data a chunk holds; framed: what has just arrived", fontsize=11)
    figure.alt = (
        f"Ring all-reduce of {ranks} ranks in {len(states) - 1} steps. At the start every chunk "
        f"holds one rank's data. In each of the first {ranks - 1} steps every rank adds to one "
        f"chunk, after which each rank has one chunk that holds all {ranks}. In {ranks - 1} more "
        "steps these go round, until every rank has all of them."
    )
    return figure
