"""Figure of estimated throughput on more ranks, by the alpha-beta model."""

from collections.abc import Sequence

import numpy

from course.shared import cost, ring
from course.shared.figure import GRAY, Figure, band, frame, look, styled


@styled
def plot_cost(models, link: cost.Link, measured_on: int, ranks: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)) -> Figure:
    """Draw the speedup on more ranks, as bands between two bounds.

    `models` maps names to a rank's seconds of computation per step and the sizes of the step's all-reduces in bytes.
    The bounds are those of `course.shared.ring.waits`: `link` was fitted to times on `measured_on` ranks.
    """
    ranks = numpy.asarray(ranks)
    figure = Figure(10.0, 4.6)
    panels = figure.subplots(1, 2)
    speed, share = panels
    speed.plot(ranks, ranks, color=GRAY, linestyle=":", label="communication free of charge")
    texts = []
    for index, (label, (compute_s, sizes_bytes)) in enumerate(models.items()):
        waiting = numpy.array([ring.waits(sizes_bytes, int(n), link, measured_on) for n in ranks])
        high, low = compute_s / (compute_s + waiting.T)
        for panel, whole in ((speed, ranks), (share, 100)):
            band(panel, ranks, low * whole, high * whole, alpha=0.25, **look(index, "color"))
            panel.plot(ranks, low * whole, linewidth=0.8, **look(index, "color", "linestyle"))
            panel.plot(ranks, high * whole, label=f"{label}: {_time(compute_s)}", **look(index))
        texts.append(f"{label}: {(low * ranks)[-1]:.3g} to {(high * ranks)[-1]:.3g} times at {ranks[-1]} ranks")
    speed.axhline(1, color="black", linewidth=1)
    speed.annotate("one rank", (ranks[-1], 1), ha="right", va="bottom")
    speed.set(yscale="log", title="samples a second, relative to one rank")
    speed.yaxis.set_major_formatter("{x:g}")
    share.set(ylim=(0, 103), title="percent of what all ranks could do")
    for panel in panels:
        frame(panel, x=ranks, xlabel="ranks")
    figure.suptitle(
        f"estimated: α {1e6 * link.alpha_s:,.0f} µs, β {1e9 * link.beta_s_per_byte:.2g} s/GB, both measured",
        fontsize=11,
    )
    figure.legend_below(speed, columns=2)
    figure.alt = f"Estimated samples a second relative to one rank. {'; '.join(texts)}."
    return figure


def _time(seconds):
    return f"{1e6 * seconds:.3g} µs" if seconds < 1e-3 else f"{1000 * seconds:,.0f} ms"
