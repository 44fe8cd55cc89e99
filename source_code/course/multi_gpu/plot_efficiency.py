"""Figures of scaling, of the parts of a step, and of Horovod's timeline, each from run records."""

import math

import numpy
from matplotlib.patches import Patch

from course.shared.bench import PARTS
from course.shared.efficiency import payoff, scaling, step_parts
from course.shared.figure import COLORS, GRAY, Figure, frame, list_rows, look, styled
from course.training import timeline
from ddl.errors import InputError
from ddl.text import plural

HATCHES = ("", "//", "..", "xx", "\\\\")  # a second cue besides color


@styled
def plot_scaling(strong_runs, weak_runs) -> Figure:
    """Draw throughput and efficiency by ranks, for strong and weak scaling, with the ideal.

    Lines use the fewest threads; marks without a line are one rank with as many cores as several ranks.
    """
    figure = Figure(9.0, 4.0)
    speed, efficient = figure.subplots(1, 2)
    texts, most = [], 1
    for index, (kind, runs) in enumerate((("strong", strong_runs), ("weak", weak_runs))):
        table = scaling(runs, kind)
        threads = table["threads"].min()
        rows = table[table["threads"] == threads]
        style = look(index)
        held = "global batch" if kind == "strong" else "batch of each rank"
        batch = rows["global_batch"].iloc[0] // (1 if kind == "strong" else rows["ranks"].iloc[0])
        speed.plot(rows["ranks"], rows["images_per_s"], label=f"{kind}: {held} {batch:,}", **style)
        efficient.plot(rows["ranks"], 100 * rows["efficiency"], **style)
        one = rows.loc[rows["ranks"] == 1, "images_per_s"]
        if len(one):
            speed.plot(rows["ranks"], rows["ranks"] * one.iloc[0], color=COLORS[index], linestyle=":", linewidth=1.0)
        other = table[(table["ranks"] == 1) & (table["threads"] > threads)]
        alone = {"linestyle": "", "markerfacecolor": "none", "markersize": 9}
        speed.plot(other["cores"] / threads, other["images_per_s"], **look(index, "color", "marker"), **alone)
        texts += [
            f"{kind}, {row['ranks']} × {row['threads']}: "
            f"{row['images_per_s']:,.0f} images/s, efficiency {row['efficiency']:.0%}"
            + (
                f", {row['equal_hardware']:.2f} times one rank with as many cores"
                if row["ranks"] > 1 and not math.isnan(row["equal_hardware"])
                else ""
            )
            for row in rows.to_dict("records")
        ]
        most = max(most, int(rows["ranks"].max()))
    speed.plot([], [], color=GRAY, linestyle=":", label="ideal: ranks × one rank")
    speed.plot([], [], color=GRAY, marker="o", label="one rank with as many cores", **alone)
    efficient.axhline(100, color=GRAY, linestyle=":")
    for panel in (speed, efficient):
        panel.set(xlabel="ranks", xticks=range(1, most + 1), ylim=(0, None))
    speed.set(ylabel="images/s")
    efficient.set(ylabel="efficiency, %")
    figure.legend_below(speed, columns=2)
    figure.alt = f"Throughput and efficiency over ranks × threads. {'; '.join(texts)}."
    return figure


@styled
def plot_step_times(runs) -> Figure:
    """Draw the parts of a step: a bar of stacked medians for each model of each run of `step_times.py`."""
    table = step_parts(runs)
    figure = Figure(9.0, 1.6 + 0.42 * len(table))
    panel = figure.subplots()
    labels = [
        f"{row['name']}: {plural(row['ranks'], 'rank')}, width {row['width']}" for row in table.to_dict("records")
    ]
    places, left = numpy.arange(len(table)), numpy.zeros(len(table))
    for index, part in enumerate(PARTS):
        values = table[f"{part}_ms"].to_numpy()
        style = {"color": COLORS[index], "hatch": HATCHES[index], "edgecolor": "white"}
        panel.barh(places, values, left=left, label=part, height=0.62, **style)
        left += values
    step = table["step_ms"]
    quartiles = [step - table["step_low_ms"], table["step_high_ms"] - step]
    style = {"fmt": "d", "color": "black", "capsize": 3}
    panel.errorbar(step, places, xerr=quartiles, label="whole step, quartiles", **style)
    list_rows(panel, labels)
    panel.set(xlabel="time of a step, ms", xlim=(0, None))
    figure.legend_below(panel, columns=6, fontsize=9)
    figure.alt = (
        "Parts of a step, medians. "
        + "; ".join(
            f"{label}: {row['step_ms']:.2f} ms a step, of which "
            + ", ".join(f"{part} {row[f'{part}_ms']:.2f}" for part in PARTS)
            for label, row in zip(labels, table.to_dict("records"), strict=True)
        )
        + "."
    )
    return figure


@styled
def plot_payoff(one, many) -> Figure:
    """Draw step times on one and several ranks by model size (`efficiency.payoff`), and the communication."""
    found = payoff(one, many)
    sizes, fitted = numpy.array(found.bytes), numpy.array(found.fitted)
    figure = Figure(9.5, 4.2)
    steps, messages = figure.subplots(1, 2, width_ratios=(3, 2))
    lines = (
        ("1 rank, measured", found.one_s),
        (f"{found.ranks} ranks, measured", found.many_s),
        (f"{found.ranks} ranks, predicted", found.predicted_s),
    )
    for index, (label, seconds) in enumerate(lines):
        steps.plot(sizes, 1e3 * numpy.array(seconds), label=label, **look(index))
    for crossing, index, label in (
        (found.measured_crossing_bytes, 1, "crossing, measured"),
        (found.predicted_crossing_bytes, 2, "crossing, predicted"),
    ):
        if crossing is not None and crossing > sizes[0]:
            steps.axvline(crossing, color=COLORS[index], linestyle=":", label=label)
    measured = 1e3 * numpy.array(found.communication_s)
    messages.plot(sizes[fitted], measured[fitted], "o", color=COLORS[0], label="measured: fitted")
    hollow = {"color": COLORS[0], "markerfacecolor": "white", "label": "measured: for the test"}
    messages.plot(sizes[~fitted], measured[~fitted], "s", **hollow)
    curve = numpy.geomspace(sizes[0], sizes[-1], 100)
    line = 1e3 * (found.alpha_s + found.beta_s_per_byte * curve)
    messages.plot(curve, line, label="alpha + beta × bytes", **look(2, "color", "linestyle"))
    steps.set(ylabel="time of a step, ms", title="the whole global batch")
    messages.set(ylabel="communication, ms", title="all gradients")
    for panel in (steps, messages):
        frame(panel, y="{x:g}", xscale="log", xlabel="gradient, bytes")
        panel.legend(fontsize=9)
    beta = "too small to see"
    if found.beta_s_per_byte:
        beta = f"1 s for {1e-6 / found.beta_s_per_byte:,.0f} MB"
    rows = "; ".join(
        f"{size:,} bytes: " + ", ".join(f"{1e3 * value:.2f}" for value in values)
        for size, *values in zip(found.bytes, *(seconds for _, seconds in lines), strict=True)
    )
    figure.alt = (
        f"Time of a step over the size of the gradient. {found.sentence[0].upper()}"
        f"{found.sentence[1:]}. Communication: alpha {1e3 * found.alpha_s:.2f} ms, beta "
        f"{beta}. Milliseconds of a step on one rank, on {found.ranks}, and predicted: {rows}."
    )
    return figure


@styled
def plot_timeline(run, width=None) -> Figure:
    """Draw Horovod's phases for each gradient in the last but one recorded step of a run with a timeline.

    `width` selects one of several models of a run of `step_times.py`.
    """
    rounds = timeline.rounds(timeline.read(run.folder / timeline.FILE), prefix=f"width{width}." if width else "")
    if not rounds:
        raise InputError("the timeline has no steps in which gradients were averaged")
    number = max(1, len(rounds) - 1)
    spans = rounds[number - 1]
    begin = min(span.start_s for span in spans)
    tensors = list(dict.fromkeys(span.tensor for span in spans))
    figure = Figure(9.5, 1.5 + 0.24 * len(tensors))
    panel = figure.subplots()
    looks = {
        phase: {"facecolor": COLORS[index], "hatch": HATCHES[index], "edgecolor": "white"}
        for index, phase in enumerate(timeline.PHASES)
    }
    # Enclosing spans first, so that inner ones are drawn on top.
    for span in sorted(spans, key=lambda span: timeline.PHASES.index(span.phase)):
        panel.broken_barh(
            [(1e3 * (span.start_s - begin), 1e3 * (span.end_s - span.start_s))],
            (tensors.index(span.tensor) - 0.4, 0.8),
            linewidth=0,
            **looks[span.phase],
        )
    list_rows(panel, tensors, fontsize=8)
    panel.set(xlabel="time, ms", xlim=(0, None))
    panel.set_title(f"Horovod's timeline of step {number} of {len(rounds)} recorded, as rank 0 saw it")
    figure.legend(
        [Patch(**looks[phase]) for phase in timeline.PHASES], timeline.PHASES, loc="outside lower center", ncols=4
    )
    total = {
        phase: 1e3 * sum(span.end_s - span.start_s for span in spans if span.phase == phase) / len(tensors)
        for phase in timeline.PHASES
    }
    total["queued"] -= total["copying"] + total["reducing"]
    length = 1e3 * (max(span.end_s for span in spans) - begin)
    figure.alt = (
        f"What Horovod did with {len(tensors)} tensors in step {number}, {length:.2f} ms from the first "
        "that was ready to the last that was averaged. On average a tensor spent "
        + ", ".join(
            f"{value:.2f} ms {'in ' if phase == 'negotiation' else ''}{phase}" for phase, value in total.items()
        )
        + "."
    )
    return figure
