"""What all figures share: colours, marks, and a picture with a text alternative for light and dark pages."""

import base64
import functools
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from html import escape

import matplotlib
import matplotlib.figure
from matplotlib.ticker import LogLocator, NullFormatter

from course.shared.themes import themed
from ddl.display.style import STYLE as SHEET

# Okabe and Ito's colour-blind safe palette as far as it can be told from white, and then what is far from it. Marker
# and line styles change along with the colour, so that print and greyscale keep arms apart; the numbers of colours and
# of markers have no common factor, so that both together repeat only after 132 arms.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C2609A", "#000000", "#A07A00", "#2E9BD0", "#9A20F0", "#2F7D00", "#C0003C")
COLOURS += ("#7A4A1E", "#E000C0")


LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
GREY = "#555555"  # of what a curve is compared with

PLACES = re.compile(r' (?:d|x|y|transform)="[^"]*"')  # of what is drawn, in points
DIGITS = re.compile(r"(\.\d\d\d)\d+")  # more of them are nowhere seen
_NUMBERS = {}  # of the looks of arms, by their names
READABLE = 0.75  # of a picture's width, below which it is scrolled: letters of 11 points are 11 pixels high then
FONTS = ["DejaVu Sans", "Verdana", "sans-serif"]  # the first lays a picture out; the second is as wide

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
        """Put one legend of some panels, each label once, below all of them."""
        shown = {label: handle for panel in panels for handle, label in zip(*panel.get_legend_handles_labels())}
        self.legend(shown.values(), shown, loc="outside lower center", ncols=columns, **options)

    def draw(self, renderer):
        for title in (self._suptitle, *(panel.title for panel in self.axes)):
            if title:
                title.set_wrap(True)  # names of data sets, runs and processors have any length
        super().draw(renderer)

    def _repr_mimebundle_(self, include=None, exclude=None):
        # JupyterLab and nbconvert give an image output no text alternative; HTML has one. In an <img>, names in one
        # picture cannot meet those in another, and pages that remove foreign markup keep it.
        source = base64.b64encode(self.svg().encode()).decode()
        width = round(96 * self.get_figwidth())
        html = (
            f'{SHEET}<div class="ddl-scroll"><img class="ddl-picture" alt="{escape(self.alt)}" width="{width}" '
            f'style="max-width:100%;min-width:{round(READABLE * width)}px;height:auto" '
            f'src="data:image/svg+xml;base64,{source}"></div>'
        )
        return {"text/html": html, "text/plain": self.alt}

    def svg(self) -> str:
        """Return the picture as SVG that is dark where the page around it asks for dark colours (style.css does)."""
        file = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ddl", "font.sans-serif": FONTS}):
            self.savefig(file, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        drawn = file.getvalue()[file.getvalue().index("<svg") :]
        return themed(PLACES.sub(lambda place: DIGITS.sub(r"\1", place[0]), drawn))


def styled(function):
    """Decorate a function that draws: the course's fonts, lines and colours."""

    @functools.wraps(function)
    def drawn(*arguments, **options):
        with matplotlib.rc_context(STYLE):
            return function(*arguments, **options)

    return drawn


def look(number: int, *keys: str) -> dict:
    """Return the look of curve `number`: color, linestyle and marker, or those of them that are named."""
    cycles = {"color": COLOURS, "linestyle": LINES, "marker": MARKERS}
    return {key: cycles[key][number % len(cycles[key])] for key in keys or cycles}


def arm_looks(names: Iterable[str]) -> dict[str, dict]:
    """Return the look of each arm of a figure: its own through all figures of a session, as `look` numbers them.

    In a figure no two arms have one colour while there are enough; colour and marker together are always an arm's own.
    """
    names, taken = list(dict.fromkeys(names)), set()
    for name in sorted(names, key=lambda name: name not in _NUMBERS):
        if name not in _NUMBERS or (_NUMBERS[name] % len(COLOURS) in taken and len(taken) < len(COLOURS)):
            used = set(_NUMBERS.values())
            free = (number for number in itertools.count() if number not in used)
            _NUMBERS[name] = next(
                number for number in free if number % len(COLOURS) not in taken or len(taken) == len(COLOURS)
            )
        taken.add(_NUMBERS[name] % len(COLOURS))
    return {name: look(_NUMBERS[name]) for name in names}


def frame(panel, x: Sequence[float] | str = "", y: Sequence[float] | str = "", **settings) -> None:
    """Label and scale a panel: `settings` go to `Axes.set`; `x` and `y` make that axis logarithmic.

    A sequence is where the axis has ticks; a format is that of ticks at 1, 2 and 5 times the powers of ten.
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
    """Give a panel a row for each name, the first one uppermost; `options` are those of the names' text."""
    panel.set_yticks(range(len(names)), names, **options)
    panel.set_ylim(len(names) - 0.5, top)


def band(panel, x, low, high, color, alpha: float = 0.15, **options) -> None:
    """Shade what lies between two curves."""
    panel.fill_between(x, low, high, color=color, alpha=alpha, linewidth=0, **options)
