"""Figures of the loss around trained weights, from runs of landscape.py."""

from collections.abc import Iterable

from course.convergence.sharpness import MEASURES, between_settings, sharpness, within_settings
from course.shared.figure import Figure, configuration_looks, frame, styled
from ddl.display.style import data_of
from ddl.errors import InputError
from ddl.text import plural

HELD_OUT = {"test_loss": "held-out loss", "test_error": "held-out error, %"}


def _listed(runs, *measures):
    """Return the runs with all these measurements."""
    runs = list(runs) if isinstance(runs, Iterable) else [runs]
    chosen = [run for run in runs if run.result and all(run.result.get(name) for name in measures)]
    if not chosen:
        raise InputError(
            f"none of these {plural(len(runs), 'run')} of landscape.py has measured {' and '.join(measures)}"
        )
    return chosen


@styled
def plot_sharpness(runs, y: str = "test_loss") -> Figure:
    """Draw each network's held-out loss against its sharpness, plain and scale-invariant.

    With ``y="test_error"`` it is the held-out error rate. Each configuration has a color; a line connects the means of
    its settings, from the highest learning rate to the lowest. The titles have Spearman's rank correlation between
    settings and within them (`course.convergence.sharpness`).
    """
    if y not in HELD_OUT:
        raise InputError(f"y={y!r} is not one of: {', '.join(HELD_OUT)}")
    runs = _listed(runs, "eigenvalue", "invariant", "test_loss")
    table = sharpness(runs)
    figure = Figure(9.0, 4.4)
    panels = figure.subplots(1, 2, sharey=True)
    texts = []
    for panel, (column, label) in zip(panels, MEASURES.items(), strict=True):
        for configuration, style in configuration_looks(table["configuration"]).items():
            mine = table[table["configuration"] == configuration]
            means = mine.groupby("learning_rate")[[column, y]].mean().sort_index(ascending=False)
            panel.plot(mine[column], mine[y], **style | {"linestyle": "", "markersize": 3})
            panel.plot(means[column], means[y], label=configuration, **style)
        between, within = (str(each(table, column, y)) for each in (between_settings, within_settings))
        low, high = table[column].min(), table[column].max()
        ticks = "{x:g}" if high > 10 * low > 0 else ""
        title = f"{between}\n{within}".replace("rank correlation ", "")
        frame(panel, x=ticks, xlabel=f"sharpness: {label}", title=title)
        texts.append(f"against the {label} ({low:.3g} to {high:.3g}): {between}; {within}")
    panels[0].set_ylabel(HELD_OUT[y])
    figure.suptitle(f"rank correlations; data: {data_of(runs)}", fontsize=11)
    figure.legend_below(panels[0], columns=3)
    figure.alt = (
        f"{HELD_OUT[y].removesuffix(', %').capitalize()} of {plural(len(table), 'network')} "
        f"({', '.join(dict.fromkeys(table['configuration']))}) on {data_of(runs)}, {'; '.join(texts)}. "
        "A correlation above 0 means that sharper networks do worse."
    )
    return figure
