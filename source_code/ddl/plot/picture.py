"""What all figures share: colours, marks, and a picture with a text alternative."""

import base64
import functools
import io
from collections.abc import Sequence
from html import escape

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

__all__ = ["Picture", "look", "only_ticks", "round_ticks", "styled"]


# Okabe and Ito's colour-blind safe palette, without the yellow that is lost on white. Line and marker styles change
# along with the colour, so that print and greyscale keep arms apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")


LINES = ("-", "--", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), "-")


MARKERS = ("o", "s", "^", "D", "v", "P", "X")


GREY = "#555555"  # of what a curve is compared with


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


class Picture(Figure):
    """A matplotlib figure with a text alternative, `alt`: what it shows, in words and numbers."""

    def __init__(self, width=9.0, height=4.0):
        super().__init__(figsize=(width, height), layout="constrained", facecolor="white")
        self.alt = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        file = io.BytesIO()
        # JupyterLab and nbconvert give an image/png output no text alternative; HTML has one.
        self.savefig(file, format="png", dpi=150)
        source = base64.b64encode(file.getvalue()).decode()
        width = round(96 * self.get_figwidth())
        html = (
            f'<img class="ddl-picture" alt="{escape(self.alt)}" width="{width}" '
            f'style="max-width:100%;height:auto" src="data:image/png;base64,{source}">'
        )
        return {"text/html": html, "text/plain": self.alt}


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


def round_ticks(axis, form: str = "{x:g}") -> None:
    """Give a logarithmic axis ticks at 1, 2 and 5 times the powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(form)
    axis.set_minor_formatter(NullFormatter())


def only_ticks(axis, values: Sequence[float]) -> None:
    """Give a logarithmic axis ticks at these values, and nowhere else a number."""
    axis.set_ticks(values, [str(value) for value in values])
    axis.set_minor_formatter(NullFormatter())
