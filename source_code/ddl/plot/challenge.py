"""The challenge's picture: accuracy against samples and against time, one's own beside the baseline."""

import math

from ddl.errors import InputError
from ddl.plot.picture import GREY, Picture, look, styled
from ddl.words import plural

AXES = {"samples": "samples trained on, in thousands", "ratio": "time, divided by the baseline's"}


def _value(row, column):
    value = row.get(column)
    return None if value is None or math.isnan(value) else float(value)


@styled
def plot_challenge(board, attempts=()) -> Picture:
    """Draw a board (`ddl.challenge.board`), and single runs (`ddl.challenge.attempts`) as hollow marks.

    Left the private accuracy against samples, right against time; bars are 95 % intervals of the mean, and the line is
    the target. Single runs show their accuracy on the public pictures.
    """
    scored = [row for row in board.to_dict("records") if _value(row, "mean") is not None and _value(row, "samples")]
    attempts = list(attempts)
    if not scored and not attempts:
        raise InputError(
            "there is nothing to draw yet: `ddl challenge run FILE` and `ddl challenge score FILE` make it"
        )
    target = board.attrs["target"]
    picture = Picture(9.6, 4.4)
    panels = picture.subplots(1, 2, sharey=True)
    own = [row for row in scored if row["kind"] == "own"]
    texts = []
    for panel, (column, label) in zip(panels, AXES.items(), strict=True):
        panel.axhline(target, color=GREY, linestyle="--", linewidth=1.2, label=f"target {target:.1%}")
        for row in scored:
            x = _value(row, column)
            if x is None:
                continue
            x = x / 1000 if column == "samples" else x
            bar = _value(row, "half_width") or 0
            if row["kind"] == "own":
                style = look(own.index(row), "color", "marker")
                filled = {} if row["counts"] == "yes" else {"alpha": 0.5}
            else:
                style, filled = {"color": GREY, "marker": "*" if row["kind"] == "reference" else "P"}, {}
            panel.errorbar(
                x, row["mean"], yerr=bar, label=row["name"], linestyle="", capsize=3, markersize=8, **style, **filled
            )
        panel.set(xlabel=label)
    for number, name in enumerate(dict.fromkeys(row["name"] for row in attempts)):
        mine = [row for row in attempts if row["name"] == name]
        style = look(len(own) + number, "color", "marker") | {"linestyle": "", "markerfacecolor": "none"}
        for panel, (column, unit) in zip(panels, {"samples": 1000, "ratio": 1}.items(), strict=True):
            known = [row for row in mine if row.get(column)]
            if known:
                label = f"{name}, single {'run' if len(mine) == 1 else 'runs'} (public)"
                accuracies = [row["public_accuracy"] for row in known]
                panel.plot([row[column] / unit for row in known], accuracies, label=label, **style)
    panels[0].set_ylabel("accuracy")
    panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    handles, labels = panels[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    picture.legend(unique.values(), unique.keys(), loc="outside lower center", ncols=3)
    for row in scored:
        ratio = _value(row, "ratio")
        texts.append(
            f"{row['name']} {row['mean']:.1%} after {row['samples']:,.0f} samples"
            + (f" and {ratio:.2f} of the baseline's time" if ratio else "")
            + ("" if row["counts"] == "yes" else ", which does not count")
        )
    best = max((row["public_accuracy"] for row in attempts), default=None)
    single = f" {plural(len(attempts), 'single run')}, at best {best:.1%} of the public pictures." if attempts else ""
    picture.alt = (
        f"Accuracy on CIFAR-10 against samples and against time, target {target:.1%}. {'; '.join(texts)}"
        f"{'.' if texts else ''}{single}"
    )
    return picture
