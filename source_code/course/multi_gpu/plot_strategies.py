"""Figures of tf.distribute: differences between strategies, staleness, loss scaling."""

import numpy

from course.multi_gpu.agreement import differences, kept_weights
from course.shared.figure import COLORS, GRAY, Figure, list_rows, look, styled
from ddl.display.style import data_label
from ddl.errors import InputError
from ddl.text import plural

# Gradients that differ by less than this, relative to their length, differ by float32's rounding.
ROUNDING = 1e-4


@styled
def plot_agreement(runs) -> Figure:
    """Draw the distance between several strategies' weights and the first run's, by update.

    Runs with bitwise equal weights have no points.
    """
    runs = list(runs)
    if len(runs) < 2:
        raise InputError("give at least two runs: weights are compared with the first run's")
    first, *others = runs
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


@styled
def plot_staleness(run) -> Figure:
    """Draw the staleness of updates in a run of ``strategies/parameter_server.py``."""
    counts = numpy.array(_from(run, "staleness", "strategies/parameter_server.py"))
    late, share = numpy.arange(len(counts)), 100 * counts / counts.sum()
    mean = (late * counts).sum() / counts.sum()
    figure = Figure(7.5, 3.6)
    panel = figure.subplots()
    bars = panel.bar(late, share, color=COLORS[0], width=0.7)
    panel.bar_label(bars, [f"{value:.0f} %" for value in share], padding=2)
    panel.axvline(mean, color=COLORS[1], linestyle="--", label=f"mean: {mean:.2f}")
    panel.set(
        xlabel="updates by other workers since the weights were read",
        xticks=late,
        ylabel="updates, %",
        ylim=(0, 1.15 * share.max()),
        xlim=(-0.6, len(counts) - 0.4),
    )
    workers = run.result["ranks"]
    panel.set_title(
        f"{counts.sum():,} updates by {plural(workers, 'asynchronous worker')}; "
        f"data: {data_label(run.result.get('data'))}"
    )
    panel.legend()
    figure.alt = (
        f"Staleness of {counts.sum():,} updates by {plural(workers, 'asynchronous worker')}: "
        + ", ".join(f"{value:.0f} % came {plural(number, 'update')} late" for number, value in enumerate(share))
        + f"; {mean:.2f} on average. In synchronous training every update is 0 late."
    )
    return figure


@styled
def plot_loss_scaling(run) -> Figure:
    """Draw the error of each loss scaling relative to one device's gradient, from a run of ``loss_scaling.py``."""
    cases = _from(run, "cases", "loss_scaling.py")
    figure = Figure(9.0, 1.2 + 0.4 * len(cases))
    panel = figure.subplots()
    for row, case in enumerate(cases):
        right = case["relative_error"] < ROUNDING
        marker, word, color = ("o", "right", COLORS[2]) if right else ("X", "wrong", COLORS[1])
        panel.plot([max(case["relative_error"], 1e-9)], [row], marker, markersize=8, color=color)
        position = {"xy": (1.01, row), "xycoords": ("axes fraction", "data"), "va": "center"}
        panel.annotate(f"{word}, {case['ratio']:.2f} × as long", fontsize=10, **position)
    panel.axvline(ROUNDING, color=GRAY, linestyle=":")
    panel.annotate(" left of this: rounding", (ROUNDING, -0.45), va="bottom", fontsize=10)
    list_rows(panel, [case["name"] for case in cases], top=-1.0)
    label = "relative error: |replicas' gradient − one device's| ÷ |one device's|"
    panel.set(xscale="log", xlim=(1e-9, 10), xlabel=label)
    sizes = "; ".join(
        f"{name} batch: {' + '.join(map(str, parts))} samples"
        for name, parts in run.result["samples_per_replica"].items()
    )
    figure.suptitle(f"{sizes}; data: {data_label(run.result.get('data'))}", fontsize=11)
    figure.alt = f"Gradients of {run.result['replicas']} replicas ({sizes}): " + "; ".join(
        f"{case['name']}: relative error {case['relative_error']:.1e}, {case['ratio']:.2f} times as long"
        for case in cases
    )
    return figure


def _from(run, key, script):
    found = (run.result or {}).get(key)
    if not found:
        raise InputError(f"run {run.id} ({run.name}, {run.state}) has no {key!r} in its result: launch {script}")
    return found
