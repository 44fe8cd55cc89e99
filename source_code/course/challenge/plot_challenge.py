"""The challenge's picture: accuracy against samples and against time, one's own beside the baseline."""

import math

from course.shared.picture import GREY, Picture, look, styled
from ddl.errors import InputError
from ddl.words import plural

AXES = {"samples": "samples trained on, in thousands", "ratio": "time, divided by the baseline's"}
UNITS = {"samples": 1000, "ratio": 1}


def _value(row, column):
    value = row.get(column)
    return None if value is None or math.isnan(value) else float(value)


@styled
def plot_challenge(board, attempts=()) -> Picture:
    """Draw a board (`course.challenge.board`), and single runs (`course.challenge.attempts`) as hollow marks.

    Left the private accuracy against samples, right against time; bars are 95 % intervals of the mean, and the line is
    the target. Single runs show their accuracy on the public pictures.
    """
    scored = [row for row in board.to_dict("records") if _value(row, "mean") is not None and _value(row, "samples")]
    attempts = list(attempts)
    if not scored and not attempts:
        raise InputError(
            "there is nothing to draw yet: start with `ddl challenge run FILE` or `ddl challenge score FILE`"
        )
    target = board.attrs["target"]
    picture = Picture(9.6, 4.4)
    panels = picture.subplots(1, 2, sharey=True)
    for panel, column in zip(panels, AXES, strict=True):
        panel.axhline(target, color=GREY, linestyle="--", linewidth=1.2, label=f"target {target:.1%}")
        _draw_scored(panel, scored, column)
        _draw_attempts(panel, attempts, column, first=sum(row["kind"] == "own" for row in scored))
        panel.set(xlabel=AXES[column])
    panels[0].set_ylabel("accuracy")
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    picture.legend_below(panels[0], columns=3)
    texts = [
        f"{row['name']} {row['mean']:.1%} after {row['samples']:,.0f} samples"
        + (f" and {ratio:.2f} of the baseline's time" if (ratio := _value(row, "ratio")) else "")
        + ("" if row["counts"] == "yes" else ", which does not count")
        for row in scored
    ]
    best = max((row["public_accuracy"] for row in attempts), default=None)
    single = f" {plural(len(attempts), 'single run')}, at best {best:.1%} of the public images." if attempts else ""
    told = f" {'; '.join(texts)}" + "." * bool(texts)
    picture.alt = f"Accuracy on CIFAR-10 against samples and against time, target {target:.1%}.{told}{single}"
    return picture


def _draw_scored(panel, scored, column):
    """Draw the mean of each submission with its interval, over a column of the board."""
    own_rows = [row for row in scored if row["kind"] == "own"]
    for row in scored:
        x = _value(row, column)
        if x is None:
            continue
        style = {"color": GREY, "marker": "*" if row["kind"] == "reference" else "P"}
        if row["kind"] == "own":
            style = look(own_rows.index(row), "color", "marker") | ({} if row["counts"] == "yes" else {"alpha": 0.5})
        bar = {"yerr": _value(row, "half_width") or 0, "capsize": 3}
        panel.errorbar(x / UNITS[column], row["mean"], label=row["name"], linestyle="", markersize=8, **bar, **style)


def _draw_attempts(panel, attempts, column, first):
    """Draw single runs as hollow marks; their looks are numbered from `first` on."""
    for number, name in enumerate(dict.fromkeys(row["name"] for row in attempts), first):
        mine = [row for row in attempts if row["name"] == name]
        known = [(row[column] / UNITS[column], row["public_accuracy"]) for row in mine if row.get(column)]
        if known:
            label = f"{name}, single {'run' if len(mine) == 1 else 'runs'} (public)"
            style = look(number, "color", "marker") | {"linestyle": "", "markerfacecolor": "none"}
            panel.plot(*zip(*known, strict=True), label=label, **style)
