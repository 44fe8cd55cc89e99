"""Figures of lesson 6: memory per rank, pipeline schedules, and communication beside computation."""

import numpy
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course.sharding import memory, pipeline
from course.sharding.roofline import Overlap
from course.shared.figure import COLORS, GRAY, Figure, frame, list_rows, look, styled
from ddl.display.style import hardware_label
from ddl.errors import InputError
from ddl.text import plural

PASSES = {"F": COLORS[0], "B": COLORS[2]}  # forward, backward


@styled
def plot_memory(runs) -> Figure:
    """Draw predicted and measured memory per rank of each finished run of ``train_transformer.py``.

    Bars are the parts of `course.sharding.memory.predicted`; marks are the measured peaks of tensors and process.
    """
    runs = [run for run in runs if run.result and "peak_bytes" in run.result]
    if not runs:
        raise InputError("none of these is a finished run of train_transformer.py")
    figure = Figure(9.0, 1.2 + 0.42 * len(runs))
    panel = figure.subplots()
    rows, left, texts = numpy.arange(len(runs)), numpy.zeros(len(runs)), []
    parts = [memory.of_run(run) for run in runs]
    for index, kind in zip((0, 1, 2, 3, 5), parts[0], strict=True):  # without the dark color, for black marks
        widths = numpy.array([part[kind] for part in parts]) / 2**20
        panel.barh(rows, widths, left=left, label=kind, alpha=0.75, **look(index, "color"))
        left += widths
    peaks = {}
    for name, what, marker, size in (("peak_bytes", "tensors", "|", 16), ("resident_bytes", "process", ">", 7)):
        peaks[name] = numpy.array([run.result[name] for run in runs]) / 2**20
        style = {"color": "black", "markersize": size, "markeredgewidth": 2}
        panel.plot(peaks[name], rows, marker, **style, label=f"measured: {what}")
    for run, predicted, tensors, process in zip(runs, left, *peaks.values(), strict=True):
        texts.append(f"{run.name}: predicted {predicted:,.0f} MiB, tensors {tensors:,.0f}, process {process:,.0f}")
    list_rows(panel, [run.name for run in runs])
    panel.set(xlabel="MiB of a rank", xlim=(0, 1.05 * max(left.max(), peaks["resident_bytes"].max())))
    panel.grid(axis="y", visible=False)
    panel.set_title(_origin(runs))
    figure.legend_below(panel, columns=4)
    figure.alt = f"Memory of a rank at its peak. {'; '.join(texts)}."
    return figure


def _origin(runs):
    """Return the hardware and date of runs."""
    result = runs[0].result
    return f"{hardware_label(result.get('hardware')) or 'hardware not recorded'}, {result['finished'][:10]}"


@styled
def plot_cycles(**schedules) -> Figure:
    """Draw schedules, one below the other: a row for each stage, forward passes blue and backward passes green.

    ``plot_cycles(GPipe=table, other=table)``; tables are those of `course.sharding.pipeline`.
    """
    cycles = max(len(schedule[0]) for schedule in schedules.values())
    heights = [len(schedule) for schedule in schedules.values()]
    figure = Figure(10.0, 0.8 * len(schedules) + 0.42 * sum(heights))
    panels = figure.subplots(len(schedules), 1, squeeze=False, height_ratios=heights)[:, 0]
    texts = []
    for panel, (name, schedule) in zip(panels, schedules.items(), strict=True):
        for stage, row in enumerate(schedule):
            for cycle, cell in enumerate(row):
                if cell:
                    alpha = 0.85 / (1 + sum(cell[2:]) / 2)  # later chunks are lighter
                    panel.add_patch(Rectangle((cycle, stage), 0.94, 0.9, color=PASSES[cell[0]], alpha=alpha))
                    panel.text(cycle + 0.47, stage + 0.45, cell[1], ha="center", va="center", color="white", fontsize=9)
        about = (
            f"{len(schedule[0])} cycles, {100 * pipeline.bubble(schedule):.0f} % idle, "
            f"activations of {max(pipeline.alive(schedule)):g} microbatches"
        )
        panel.set(xlim=(0, cycles), ylim=(len(schedule), 0), title=f"{name}: {about}")
        kind = "stage" if pipeline.chunks(schedule) == 1 else "rank"
        panel.set_yticks([row + 0.45 for row in range(len(schedule))], [f"{kind} {k}" for k in range(len(schedule))])
        panel.grid(visible=False)
        texts.append(f"{name}: {about}")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    panels[-1].set_xlabel("clock cycle; the number is the microbatch, forward blue, backward green")
    figure.alt = f"Schedules of {len(schedules[next(iter(schedules))])} stages. {'; '.join(texts)}."
    return figure


@styled
def plot_overlap(*measured: Overlap, predicted=()) -> Figure:
    """Draw communication and computation of a layer over tokens, in turn and at the same time: a panel for each place.

    Dotted lines are the `predicted` tokens from which computation takes longer.
    """
    figure = Figure(max(6.0, 4.6 * len(measured)), 3.8)
    panels, texts = figure.subplots(1, len(measured), squeeze=False)[0], []
    for panel, of, expected in zip(panels, measured, predicted or [None] * len(measured), strict=True):
        for number, (kind, ms) in enumerate(of.ms.items()):
            panel.plot(of.tokens, ms, label=kind, **look(number))
        if expected:
            panel.axvline(expected, color=GRAY, linestyle=":", label="prediction")
        frame(panel, y="{x:g}", xscale="log", xlabel="tokens per rank", ylabel="ms per layer", title=of.where)
        last = {kind: f"{ms[-1]:.3g}" for kind, ms in of.ms.items()}
        texts.append(
            f"{of.where}: at {of.tokens[-1]:,} tokens {last['communication']} ms of communication, "
            f"{last['computation']} of computation, {last['at the same time']} at the same time"
        )
    figure.legend_below(*panels, columns=3)
    figure.alt = f"Milliseconds per layer over tokens. {'; '.join(texts)}."
    return figure


@styled
def plot_communication(*runs) -> Figure:
    """Draw when each variant of a run of ``race_ddp.py`` computed and communicated, in its last repeat.

    Or of runs of ``train_transformer.py`` with a class FullySharded, in the last step.
    """
    variants = runs[0].result.get("variants") or {run.name: _variant(run.result) for run in runs}
    figure = Figure(9.0, 1.4 + 0.7 * len(variants))
    panel, texts = figure.subplots(), []
    for row, (name, variant) in enumerate(variants.items()):
        for kind, place, number in (("computation", 0.0, 1), ("communication", 0.38, 0)):
            bars = [(1e3 * begin, 1e3 * (end - begin)) for begin, end in variant[kind]]
            color = look(number, "color")["color"]
            label = kind if not row else None
            panel.broken_barh(bars, (row + place, 0.34), color=color, edgecolor="white", alpha=0.8, label=label)
        texts.append(
            f"{name}: {1e3 * numpy.median(variant['seconds']):.0f} ms, {plural(variant['messages'], 'message')}"
        )
    panel.set_yticks([row + 0.36 for row in range(len(variants))], list(variants))
    panel.invert_yaxis()
    panel.grid(axis="y", visible=False)
    panel.set(xlabel="ms from the start, on rank 0", title=_origin(runs))
    figure.legend_below(panel, columns=2)
    figure.alt = f"Computation and communication; medians. {'; '.join(texts)}."
    return figure


def _variant(result):
    timeline = result["timeline"]
    return {**timeline, "seconds": result["step_seconds"][1:], "messages": len(timeline["communication"])}
