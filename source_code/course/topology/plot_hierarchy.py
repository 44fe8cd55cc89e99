"""Figures of hierarchical all-reduces."""

from course.shared.bench import FLAT, VARIANTS
from course.shared.figure import COLORS, Figure, band, look, styled
from course.topology.hierarchy import setting
from ddl.errors import InputError


@styled
def plot_variants(runs) -> Figure:
    """Draw the times of ``hierarchical_allreduce.py``'s variants over message sizes, and against a flat ring; a run a
    column.
    """
    runs = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    if not runs:
        raise InputError("no runs to draw")
    figure = Figure(9.0, 6.4)
    first = runs[0].result
    figure.suptitle(
        f"all-reduce by {first['ranks']} ranks on {first['hosts']} hosts, median and quartiles", fontsize=11
    )
    axes = figure.subplots(2, len(runs), sharex=True, sharey="row", squeeze=False)
    for run, (upper, lower) in zip(runs, axes.T, strict=True):
        points, texts = run.result["points"], []
        for number, variant in enumerate(VARIANTS):
            measured = [point for point in points if point["variant"] == variant]
            sizes = [point["size_bytes"] for point in measured]
            style = {**look(number), "label": variant}
            for panel, key, scale in ((upper, "seconds", 1e3), (lower, "faster", 1)):
                low, median, high = (
                    [scale * point[key][end] for point in measured] for end in ("low", "median", "high")
                )
                panel.plot(sizes, median, **style)
                band(panel, sizes, low, high, COLORS[number])
            if variant != FLAT and measured:
                last = measured[-1]
                texts.append(f"{variant} {last['faster']['median']:.2f} times as fast")
        upper.set(xscale="log", yscale="log", title=_title(run))
        lower.set(xscale="log", yscale="log", xlabel="message, bytes")
        lower.set_yticks([0.25, 0.5, 1, 1.5, 2], labels=["¼", "½", "1", "1½", "2"])
        lower.minorticks_off()
        largest = points[-1]["size_bytes"] / 1e6
        figure.alt += (
            f"All-reduce over message size, {setting(run)}. At {largest:.3g} MB, "
            f"against Horovod's own ring: {', '.join(texts)}. "
        )
    axes[0, 0].set_ylabel("time, ms")
    axes[1, 0].set_ylabel("times as fast as flat")
    figure.legend_below(axes[0, 0], columns=5)
    figure.alt = figure.alt.strip()
    return figure


def _title(run):
    rate = run.result["rate_mbit"]
    link = run.result["transport"] if rate is None else f"{rate:,} Mbit/s" if rate else "no limit"
    return f"{link}{' (recorded)' * run.recorded}"
