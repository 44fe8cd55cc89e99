"""Figures of failures: lost time by checkpoint interval."""

import numpy

from course.multi_gpu.failures import daly, lost_share, simulated_share, young
from course.shared.figure import Figure, frame, look, styled

AROUND, DOTS = 12, 13  # range as a factor of the optimum; number of simulations


@styled
def plot_lost_share(checkpoint_s, restart_s, mtbf_s, seed: int = 0) -> Figure:
    """Draw the lost share of time by checkpoint interval, to first order and simulated.

    Vertical lines mark Young's and Daly's optimum.
    """
    optima = {"Young": young(checkpoint_s, mtbf_s), "Daly": daly(checkpoint_s, mtbf_s)}
    best = optima["Young"]
    curve = numpy.geomspace(best / AROUND, best * AROUND, 200)
    dots = numpy.geomspace(best / AROUND, best * AROUND, DOTS)
    costs = checkpoint_s, restart_s, mtbf_s
    simulated = [100 * simulated_share(interval, *costs, seed=seed) for interval in dots]
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    line = look(0, "color", "linestyle")
    panel.plot(curve / 60, 100 * lost_share(curve, *costs), label="to first order", **line)
    panel.plot(dots / 60, simulated, linestyle="", label="simulated", **look(1, "color", "marker"))
    for index, (name, interval) in enumerate(optima.items(), start=2):
        panel.axvline(interval / 60, label=f"{name}: {interval / 60:,.3g} minutes", **look(index, "color", "linestyle"))
    most = max(*simulated, *(100 * lost_share(end, *costs) for end in curve[[0, -1]]))
    label = "minutes of training between checkpoints"
    frame(panel, x="{x:g}", xlabel=label, ylabel="lost, % of the training's time", ylim=(0, 1.1 * most))
    said = f"checkpoint {checkpoint_s:,.3g} s, restart {restart_s:,.3g} s, a failure every {mtbf_s / 60:,.3g} minutes"
    panel.set_title(said)
    panel.legend()
    figure.alt = (
        f"Share of time that is lost over the minutes between checkpoints ({said}), to first order and simulated: "
        + "; ".join(
            f"at {interval / 60:.3g} minutes {100 * lost_share(interval, *costs):.3g} and {share:.3g} %"
            for interval, share in zip(dots, simulated, strict=True)
        )
        + ". The optimum is "
        + " and ".join(f"{interval / 60:.3g} minutes by {name}" for name, interval in optima.items())
        + "."
    )
    return figure
