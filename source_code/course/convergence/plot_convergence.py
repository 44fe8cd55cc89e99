"""Figures of convergence: accuracy over training, schedules, noise scales and minima."""

from collections.abc import Iterable, Sequence

import numpy
import pandas

from course.shared.figure import COLORS, GRAY, Figure, band, configuration_looks, frame, look, styled
from ddl.display.chart import short
from ddl.display.style import data_of
from ddl.display.table import is_number
from ddl.errors import InputError
from ddl.text import plural

RECORDED_ALPHA = 0.45
X_AXES = {
    "epochs": ("epoch", "epochs"),
    "steps": ("step", "optimizer steps"),
    "samples": ("samples", "samples seen"),
    "seconds": ("seconds", "training time, s"),
}


# ---------------------------------------------------------------- configurations and seeds


def _by_configuration(runs):
    """Group runs that have a history: {(name, recorded): [run, …]}, in order of appearance."""
    configurations = {}
    for run in _listed(runs):
        if run.result is not None and len(run.history):
            configurations.setdefault((run.name, bool(run.recorded)), []).append(run)
    if not configurations:
        raise InputError("none of these runs has both evaluations and a result")
    return configurations


def _listed(runs):
    runs = list(runs) if isinstance(runs, Iterable) else [runs]
    if not runs:
        raise InputError("no runs to draw")
    return runs


def _every(configurations):
    return [run for configuration in configurations.values() for run in configuration]


def _looks(configurations):
    """Return each configuration's style by name, a recorded one a lighter version of the reader's."""
    looks, recorded_alpha = (
        configuration_looks(name for name, _ in configurations),
        RECORDED_ALPHA if _mixed(configurations) else 1.0,
    )
    return {key: looks[key[0]] | {"alpha": recorded_alpha if key[1] else 1.0} for key in configurations}


def _mixed(configurations):
    """Return whether recorded configurations are mixed with others."""
    return len({recorded for _, recorded in configurations}) > 1


def _labels(configurations):
    """Return each configuration's label, and notes that labels share: seeds and hardware."""
    labels, notes = {}, []
    for recorded in dict.fromkeys(recorded for _, recorded in configurations):
        lighter = recorded and _mixed(configurations)
        group = {key: configuration for key, configuration in configurations.items() if key[1] == recorded}
        counts = {len(configuration) for configuration in group.values()}
        for key, configuration in group.items():
            seeds = f" ({plural(len(configuration), 'seed')})" if len(counts) > 1 else ""
            labels[key] = key[0] + ", recorded" * lighter + seeds
        note = [f"recorded on {_hardware(_every(group))}"] if lighter else []
        note += [f"{plural(*counts, 'seed')} a configuration"] if len(counts) == 1 else []
        notes += ["lighter: " * lighter + ", ".join(note)] if note else []
    return labels, "; ".join(notes)


def _hardware(runs):
    """Return the hardware that runs were recorded on."""
    known = [run.result.get("hardware") or {} for run in runs]
    names = [", ".join(each.get("gpus") or ()) or each.get("cpu", "hardware not recorded") for each in known]
    return " and ".join(dict.fromkeys(names))


def _origin(configurations):
    """Return the configurations' data and, if all are recorded, their hardware."""
    recorded = (
        f"; recorded on {_hardware(_every(configurations))}" if all(recorded for _, recorded in configurations) else ""
    )
    return f"data: {data_of(_every(configurations))}{recorded}"


def _final(configuration):
    """Return a description of a configuration's final held-out accuracy."""
    accuracies = [run.result.get("test_accuracy") for run in configuration]
    values = 100 * numpy.array([accuracy for accuracy in accuracies if is_number(accuracy)])
    if not len(values):
        return "no held-out accuracy"
    spread = f" (from {values.min():.1f} to {values.max():.1f})" if len(values) > 1 else ""
    return f"{values.mean():.1f} %{spread}"


# ---------------------------------------------------------------- figures of runs


@styled
def plot_convergence(runs, x=None) -> Figure:
    """Draw held-out accuracy against epochs, steps, samples and seconds of training, or against one of them, `x`.

    Runs with the same name are seeds of one configuration: a line for their mean, a band from the lowest to the
    highest. Recorded runs are lighter if shown with others. Seconds exclude evaluation, start-up and waiting.
    """
    if x is not None and x not in X_AXES:
        raise InputError(f"x={x!r} is not one of: {', '.join(X_AXES)}")
    configurations = _by_configuration(runs)
    labels, notes = _labels(configurations)
    looks = _looks(configurations)
    axes_names = [x] if x else [name for name, (column, _) in X_AXES.items() if _have(configurations, column)]
    if x and not _have(configurations, X_AXES[x][0]):
        raise InputError(f"not all of these runs have recorded {X_AXES[x][1]}: use x='epochs' or x='steps'")
    grid = {4: (2, 2), 3: (1, 3)}.get(len(axes_names), (1, 1))
    figure = Figure(7.5, 4.2) if x else Figure(9.0, 6.6 if len(axes_names) == 4 else 4.0)
    panels = figure.subplots(*grid, sharey=True, squeeze=False).flat
    for panel, name in zip(panels, axes_names, strict=True):
        column, label = X_AXES[name]
        for key, configuration in configurations.items():
            style = looks[key]
            at, mean, low, high = _over_seeds(configuration, column)
            panel.plot(at, mean, label=labels[key], **style)
            if len(configuration) > 1:
                band(panel, at, low, high, style["color"])
        panel.set(xlabel=label, xlim=(0, None))
        panel.xaxis.set_major_formatter(lambda value, _: short(value))
    for panel in figure.axes[:: grid[1]]:
        panel.set_ylabel("held-out accuracy, %")
    figure.suptitle(_origin(configurations), fontsize=11)
    columns = max(1, min(4, 110 // (max(map(len, labels.values())) + 6)))
    figure.legend_below(figure.axes[0], columns=columns, title=notes)
    ends = [
        f"{labels[key]} {_final(configuration)} after {configuration[0].history['step'].iloc[-1]:,.0f} steps"
        for key, configuration in configurations.items()
    ]
    figure.alt = (
        f"Held-out accuracy against {', '.join(X_AXES[name][1] for name in axes_names)}, on "
        f"{data_of(_every(configurations))}{f' ({notes})' if notes else ''}. At the end: {'; '.join(ends)}."
    )
    return figure


def _have(configurations, column):
    """Whether all runs have recorded a column of their history."""
    return all(column in run.history and run.history[column].notna().any() for run in _every(configurations))


def _over_seeds(configuration, column):
    """Return mean position, and mean, lowest and highest accuracy (%) at each step that seeds share."""
    rows = pandas.concat([run.history for run in configuration]).astype(float)
    rows = rows.groupby(rows["step"])
    accuracy = 100 * rows["test_accuracy"].agg(["mean", "min", "max"])
    return rows[column].mean(), accuracy["mean"], accuracy["min"], accuracy["max"]


@styled
def plot_noise_scale(runs, batches: Sequence[int] = ()) -> Figure:
    """Draw the gradient noise scale over training, with the runs' global batches and other `batches`.

    McCandlish et al. 2018, "An Empirical Model of Large-Batch Training", section 2.2. Raises InputError if none of the
    runs measured it (``noise_scale=True``).
    """
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    texts, marks, drawn = [], {}, []
    for run in _listed(runs):
        if run.result is None or not (estimates := _noise_estimates(run)):
            continue
        # No value if |G|² was indistinguishable from zero.
        points = [(row["step"], row["noise_scale"]) for row in estimates if (row.get("noise_scale") or 0) > 0]
        style = look(len(drawn), "color", "linestyle")
        steps, values = zip(*points, strict=True) if points else ((), ())
        panel.plot(steps, values, label=run.name, **style)
        drawn.append(run)
        marks.setdefault(run.result["global_batch"], style["color"])
        found = f"from {values[0]:,.0f} to {values[-1]:,.0f}" if points else "without an estimate above zero"
        texts.append(f"{run.name} {found}")
    if not drawn:
        raise InputError("no run here recorded a noise scale: launch one with noise_scale=True")
    for batch, color in (dict.fromkeys(batches, GRAY) | marks).items():
        panel.axhline(batch, color=color, linewidth=1, linestyle=":")
        position = {"xy": (1, batch), "xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
        panel.annotate(f"global batch {batch:,}", fontsize=10, **position)
    labels = {"xlabel": "optimizer steps", "ylabel": "noise scale, samples", "title": f"data: {data_of(drawn)}"}
    frame(panel, y="{x:,.0f}", xlim=(0, None), **labels)
    if len(drawn) > 1:
        panel.legend()
    figure.alt = (
        f"Gradient noise scale over steps, logarithmic, on {data_of(drawn)}: {'; '.join(texts)}. "
        f"Global batch sizes marked: {', '.join(f'{b:,}' for b in sorted({*marks, *batches}))}."
    )
    return figure


def _noise_estimates(run):
    """Return a run's estimates of the noise scale, from its events or else from its evaluations."""
    if not run.recorded:
        return [event for event in run.events() if event["event"] == "noise_scale"]
    return [row for row in run.history.to_dict("records") if is_number(row.get("variance"))]


# ---------------------------------------------------------------- figures of models


@styled
def plot_schedule(schedules) -> Figure:
    """Draw learning-rate schedules: a dictionary from labels to (epochs, learning rates)."""
    figure = Figure(8.0, 3.6)
    panel = figure.subplots()
    texts = []
    for index, (label, (x, y)) in enumerate(schedules.items()):
        panel.plot(x, y, label=label, **look(index, "color", "linestyle"))
        texts.append(f"{label} starts at {y[0]:.3g}, peaks at {max(y):.3g}, ends at {y[-1]:.3g}")
    panel.set(xlabel="epochs", ylabel="learning rate", xlim=(0, None), ylim=(0, None))
    panel.set_title("computed from the schedules, no run needed")
    panel.legend()
    figure.alt = f"Learning rate over epochs: {'; '.join(texts)}."
    return figure


@styled
def plot_minima(shift: float = 0.25) -> Figure:
    """Draw a sharp and a flat minimum, and the effect of a shift of the loss on each.

    The training loss of one weight ``w`` is ``1 − exp(−(w+1)²/(2·0.12²)) − exp(−(w−1)²/(2·0.7²))``, the held-out loss
    the same function shifted by `shift`; after Keskar et al. 2017, "On Large-Batch Training for Deep Learning", figure
    1.
    """
    w = numpy.linspace(-2.2, 3.2, 1081)

    def loss(at):
        return 1 - numpy.exp(-((at + 1) ** 2) / 0.0288) - numpy.exp(-((at - 1) ** 2) / 0.98)

    training, held_out = loss(w), loss(w - shift)
    figure = Figure(8.0, 3.8)
    panel = figure.subplots()
    panel.plot(w, training, color=COLORS[0], label="training loss")
    panel.plot(w, held_out, color=COLORS[1], linestyle="--", label=f"held-out loss: the same, moved by {shift:g}")
    rises = {}
    for name, side in (("sharp", w < 0), ("flat", w > 0)):
        here = numpy.flatnonzero(side)[training[side].argmin()]
        rises[name] = held_out[here] - training[here]
        panel.plot([w[here]] * 2, [training[here], held_out[here]], "o:", color="#333333")
        panel.annotate(f"{name} minimum: +{rises[name]:.2f}", (w[here], -0.12), ha="center")
    panel.set(xlabel="one weight, w", ylabel="loss", ylim=(-0.18, 1.25))
    panel.set_title("two explicit functions, not a measurement")
    panel.legend(loc="upper right")
    figure.alt = (
        "Training loss with a sharp and a flat minimum of equal depth, and the held-out loss, "
        f"which is the same curve moved by {shift:g}. At the sharp minimum the held-out loss lies "
        f"{rises['sharp']:.2f} above the training loss, at the flat one {rises['flat']:.2f}."
    )
    return figure
