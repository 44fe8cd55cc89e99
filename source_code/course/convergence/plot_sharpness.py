"""Figure of sharpness and held-out errors, from recorded runs."""

from course.convergence.sharpness import MEASURES, between_settings, sharpness, within_settings
from course.shared.figure import Figure, configuration_looks, frame, styled
from ddl.display.style import data_of
from ddl.text import plural


@styled
def plot_sharpness(runs) -> Figure:
    """Draw each network's held-out errors against its sharpness, plain and scale-invariant.

    Each configuration has a color; a line connects the means of its settings, from the highest learning rate to the
    lowest. The titles have Spearman's rank correlation between settings and within them
    (`course.convergence.sharpness`).
    """
    table = sharpness(runs)
    figure = Figure(9.0, 4.4)
    panels = figure.subplots(1, 2, sharey=True)
    texts = []
    for panel, (column, label) in zip(panels, MEASURES.items(), strict=True):
        for configuration, style in configuration_looks(table["configuration"]).items():
            mine = table[table["configuration"] == configuration]
            means = mine.groupby("learning_rate")[[column, "test_error"]].mean().sort_index(ascending=False)
            panel.plot(mine[column], mine["test_error"], **style | {"linestyle": "", "markersize": 3})
            panel.plot(means[column], means["test_error"], label=configuration, **style)
        between, within = (str(each(table, column, "test_error")) for each in (between_settings, within_settings))
        low, high = table[column].min(), table[column].max()
        ticks = "{x:g}" if high > 10 * low > 0 else ""
        title = f"{between}\n{within}".replace("rank correlation ", "")
        frame(panel, x=ticks, xlabel=f"sharpness: {label}", title=title)
        texts.append(f"against the {label} ({low:.3g} to {high:.3g}): {between}; {within}")
    panels[0].set_ylabel("held-out error, %")
    figure.suptitle(f"rank correlations; data: {data_of(runs)}", fontsize=11)
    figure.legend_below(panels[0], columns=3)
    figure.alt = (
        f"Held-out error of {plural(len(table), 'network')} "
        f"({', '.join(dict.fromkeys(table['configuration']))}) on {data_of(runs)}, {'; '.join(texts)}. "
        "A correlation above 0 means that sharper networks do worse."
    )
    return figure
