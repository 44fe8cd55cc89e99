"""Shared parts of all figures: colors, markers, text alternatives, light and dark themes."""

import base64
import functools
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from html import escape

import matplotlib
import matplotlib.figure
import matplotlib.style
from matplotlib.ticker import LogLocator, NullFormatter

from course.shared.themes import themed
from ddl.display.style import STYLE as SHEET

# Okabe and Ito's palette for color blindness, without colors close to white, then colors far from it. Markers and line
# styles change with the color, so that configurations also differ in grayscale print. The numbers of colors and markers
# are coprime, so pairs repeat only after 132 configurations.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#C2609A", "#000000", "#A07A00", "#2E9BD0", "#9A20F0", "#2F7D00", "#C0003C")
COLORS += ("#7A4A1E", "#E000C0")


LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
GRAY = "#555555"  # of baselines

PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')  # line width, in points
DIGITS = re.compile(r"(\.\d\d\d)\d+")  # points in a curve
_NUMBERS = {}  # number of each configuration's style
READABLE = 0.75  # minimal width, below which a figure scrolls: 11-point letters are then 11 pixels high
FONTS = ["DejaVu Sans", "Verdana", "sans-serif"]  # the first draw lays out the figure; the second has the final width

STYLE = {
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.7,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 10,
}


class Figure(matplotlib.figure.Figure):
    """A matplotlib figure with a text alternative, `alt`: what it shows, in words and numbers."""

    def __init__(self, width=9.0, height=4.0):
        super().__init__(figsize=(width, height), layout="constrained", facecolor="white")
        self.alt = ""

    def legend_below(self, *panels, columns: int, **options):
        """Add one legend for several panels below them, with each label once."""
        shown = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels())}
        self.legend(shown.values(), shown, loc="outside lower center", ncols=columns, **options)

    def draw(self, renderer):
        for title in (self._suptitle, *(panel.title for panel in self.axes)):
            if title:
                title.set_wrap(True)  # names of data sets, runs and processors can be long
        super().draw(renderer)

    def _repr_mimebundle_(self, include=None, exclude=None):
        # In JupyterLab and nbconvert, image outputs have no text alternative, but HTML does. With <img>, ids in
        # different figures cannot clash, and sanitizers keep it.
        source = base64.b64encode(self.svg().encode()).decode()
        width = round(96 * self.get_figwidth())
        html = (
            f'{SHEET}<div class="ddl-scroll"><img class="ddl-picture" alt="{escape(self.alt)}" width="{width}" '
            f'style="max-width:100%;min-width:{round(READABLE * width)}px;height:auto" '
            f'src="data:image/svg+xml;base64,{source}"></div>'
        )
        return {"text/html": html, "text/plain": self.alt}

    def svg(self) -> str:
        """Return the figure as SVG that follows the page's light or dark color scheme (see style.css)."""
        file = io.StringIO()
        with drawing({"svg.fonttype": "none", "svg.hashsalt": "ddl", "font.sans-serif": FONTS}):
            self.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = file.getvalue()[file.getvalue().index("<svg") :]
        return themed(PLACES.sub(lambda place: DIGITS.sub(r"\1", place[0]), drawn))


def drawing(style: dict):
    """Return a context with matplotlib's defaults and this style, without the user's own settings."""
    return matplotlib.style.context(["default", style])


def styled(function):
    """Decorate a drawing function to use the course's fonts, lines and colors."""

    @functools.wraps(function)
    def drawn(*arguments, **options):
        with drawing(STYLE):
            return function(*arguments, **options)

    return drawn


def look(number: int, *keys: str) -> dict:
    """Return the style of curve `number`: color, linestyle and marker, or the named subset."""
    cycles = {"color": COLORS, "linestyle": LINES, "marker": MARKERS}
    return {key: cycles[key][number % len(cycles[key])] for key in keys or cycles}


def configuration_looks(names: Iterable[str]) -> dict[str, dict]:
    """Return the style of each configuration of a figure, which keeps its style in all figures of a session.

    Configurations in a figure have different colors while there are enough of them, and always a unique pair of color
    and marker.
    """
    names, taken = list(dict.fromkeys(names)), set()
    for name in sorted(names, key=lambda name: name not in _NUMBERS):
        if name not in _NUMBERS or (_NUMBERS[name] % len(COLORS) in taken and len(taken) < len(COLORS)):
            used = set(_NUMBERS.values())
            free = (number for number in itertools.count() if number not in used)
            _NUMBERS[name] = next(
                number for number in free if number % len(COLORS) not in taken or len(taken) == len(COLORS)
            )
        taken.add(_NUMBERS[name] % len(COLORS))
    return {name: look(_NUMBERS[name]) for name in names}


def frame(panel, x: Sequence[float] | str = "", y: Sequence[float] | str = "", **settings) -> None:
    """Label and scale a panel: `settings` go to `Axes.set`; `x` and `y` make that axis logarithmic.

    A sequence sets the ticks' positions; a string is the format of ticks at 1, 2 and 5 times powers of ten.
    """
    for name, axis, ticks in (("x", panel.xaxis, x), ("y", panel.yaxis, y)):
        if not len(ticks):
            continue
        panel.set(**{f"{name}scale": "log"})
        if isinstance(ticks, str):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(ticks)
        else:
            axis.set_ticks(ticks, [str(value) for value in ticks])
        axis.set_minor_formatter(NullFormatter())
    panel.set(**settings)


def list_rows(panel, names: Sequence[str], top: float = -0.5, **options) -> None:
    """Label a panel's rows, with the first name at the top; `options` apply to the text."""
    panel.set_yticks(range(len(names)), names, **options)
    panel.set_ylim(len(names) - 0.5, top)


def band(panel, x, low, high, color, alpha: float = 0.15, **options) -> None:
    """Shade the area between two curves."""
    panel.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, **options)
