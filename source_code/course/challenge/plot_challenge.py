"""The challenge's figure: accuracy against processor time, with the baseline and the reference."""

import math

from course.shared.figure import GRAY, Figure, configuration_looks, styled


@styled
def plot_challenge(board) -> Figure:
    """Draw a board (`course.challenge.board`): private accuracy against processor time.

    Bars are 95 % intervals of the mean, and the line is the target.
    """
    scored = [row for row in board.to_dict("records") if not math.isnan(row["ratio"])]
    target = board.attrs["target"]
    figure = Figure(7.2, 4.2)
    panel = figure.subplots()
    panel.axhline(target, color=GRAY, linestyle="--", linewidth=1.2, label=f"target {target:.1%}")
    looks = configuration_looks(
        row["name"] for row in scored if row["kind"] == "own"
    )  # the same after each new submission
    for row in scored:
        style = {"color": GRAY, "marker": "*" if row["kind"] == "reference" else "P"}
        if row["kind"] == "own":
            style = looks[row["name"]] | {"alpha": 1 if row["counts"] == "yes" else 0.5}
        half = 0 if math.isnan(row["half_width"]) else row["half_width"]
        style |= {"yerr": half, "capsize": 3, "linestyle": "", "markersize": 8}
        panel.errorbar(row["ratio"], row["mean"], label=row["name"], **style)
    panel.set(xlabel="processor time ÷ baseline's", ylabel="private accuracy")
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    figure.legend_below(panel, columns=3)
    texts = [
        f"{row['name']} {row['mean']:.1%} in {row['ratio']:.2f} of the baseline's processor time"
        + ("" if row["counts"] == "yes" else ", which does not count")
        for row in scored
    ]
    images = board.attrs["data"]
    figure.alt = f"Accuracy on {images} images against processor time, target {target:.1%}. {'; '.join(texts)}."
    return figure
