"""Fixtures for all unit tests: every figure is checked."""

import sys
from unittest import mock

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from course.shared.figure import Figure

LOOKED_AT = set()  # functions that draw, each of whose first picture has been looked at


@pytest.fixture(autouse=True)
def no_text_is_cut(monkeypatch):
    """Fail the first test that draws a figure of a kind, if a title, label or note of it leaves its canvas."""
    made, begin = {}, Figure.__init__

    def beginning(picture, *arguments, **options):
        begin(picture, *arguments, **options)
        made.setdefault(sys._getframe(1).f_code.co_name, picture)

    monkeypatch.setattr(Figure, "__init__", beginning)
    yield
    new = made.keys() - LOOKED_AT
    LOOKED_AT.update(new)
    assert {name: texts for name in new if (texts := cut(made[name]))} == {}


def cut(picture):
    """Return the texts of a figure that are not wholly on its canvas."""
    renderer, drawn = FigureCanvasAgg(picture).get_renderer(), []
    with mock.patch.object(Text, "draw", lambda text, renderer: drawn.append(text)):
        picture.draw(renderer)
    left, bottom, right, top = picture.bbox.padded(1).extents
    boxes = {text: text.get_window_extent(renderer) for text in drawn if text.get_visible() and text.get_text()}
    return [
        text.get_text() for text, box in boxes.items()
        if box.x0 < left or box.y0 < bottom or box.x1 > right or box.y1 > top
    ]  # fmt: skip
