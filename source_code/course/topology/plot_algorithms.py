"""Figure of all-reduce algorithms by the model."""

import numpy

from course.shared import cost
from course.shared.figure import Figure, look, styled


@styled
def plot_algorithms(ranks: int, alpha_s: float, beta_s_per_byte: float) -> Figure:
    """Draw the predicted time of an all-reduce by message size, for each algorithm of `course.shared.cost`."""
    figure = Figure(8.0, 4.2)
    panel = figure.subplots()
    sizes = numpy.geomspace(1, 2**30, 400)
    texts = []
    for number, (name, seconds) in enumerate(cost.ALGORITHMS.items()):
        times = 1e3 * seconds(sizes, ranks, alpha_s, beta_s_per_byte)
        style = {**look(number), "marker": ""}
        panel.plot(sizes, times, label=name, **style)
        texts.append(f"{name} {times[0]:.3g} ms for a byte, {times[-1]:.3g} for 1 GiB")
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="data of a rank, bytes",
        ylabel="time, ms",
        title=f"{ranks} ranks, {1e6 * alpha_s:g} µs a message, {1e-9 / beta_s_per_byte:g} GB/s: the model",
    )
    panel.legend()
    figure.alt = f"Time of an all-reduce on {ranks} ranks by the model: {'; '.join(texts)}."
    return figure
