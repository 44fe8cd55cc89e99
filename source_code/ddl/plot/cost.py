"""What an average costs: samples a second on more ranks, by the alpha-beta model."""

from collections.abc import Sequence

import numpy

from ddl.analysis import cost, ring
from ddl.plot.picture import GREY, Picture, look, only_ticks, styled

__all__ = ["plot_cost"]


@styled
def plot_cost(models, link: cost.Link, measured_on: int, ranks: Sequence[int] = (1, 2, 4, 8, 16, 32, 64)) -> Picture:
    """Draw how much faster samples are processed on more ranks, as bands between two bounds.

    `models` maps names to the seconds that a rank computes in a step and the sizes of the step's all-reduces in bytes.
    The bounds are those of `ddl.analysis.ring.waits`: `link` was fitted to times on `measured_on` ranks.
    """
    ranks = numpy.asarray(ranks)
    picture = Picture(8.5, 4.6)
    panel = picture.subplots()
    panel.plot(ranks, ranks, color=GREY, linestyle=":", label="communication free of charge")
    texts = []
    for index, (label, (compute_s, sizes_bytes)) in enumerate(models.items()):
        waiting = numpy.array([ring.waits(sizes_bytes, int(n), link, measured_on) for n in ranks])
        high, low = (ranks * compute_s / (compute_s + waiting)[:, bound] for bound in (0, 1))
        panel.fill_between(ranks, low, high, alpha=0.25, linewidth=0, **look(index, "color"))
        panel.plot(ranks, high, label=f"{label}: {_time(compute_s)}", **look(index))
        panel.plot(ranks, low, linewidth=0.8, **look(index, "color", "linestyle"))
        texts.append(f"{label}: {low[-1]:.3g} to {high[-1]:.3g} times at {ranks[-1]} ranks")
    panel.axhline(1, color="black", linewidth=1)
    panel.annotate("one worker", (ranks[-1], 1), ha="right", va="bottom")
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="ranks",
        ylabel="samples a second, relative to one rank",
        title=f"estimated: α {1e6 * link.alpha_s:,.0f} µs, β {1e9 * link.beta_s_per_byte:.2g} s/GB, both measured",
    )
    only_ticks(panel.xaxis, ranks)
    panel.yaxis.set_major_formatter("{x:g}")
    picture.legend(loc="outside lower center", ncols=2)
    picture.alt = f"Estimated samples a second relative to one rank. {'; '.join(texts)}."
    return picture


def _time(seconds):
    return f"{1e6 * seconds:.3g} µs" if seconds < 1e-3 else f"{1000 * seconds:,.0f} ms"
