"""The committed diagrams are what their script draws, and each has a text alternative."""

import xml.etree.ElementTree as ElementTree

import draw
import pytest
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from helpers import ROOT


@pytest.mark.parametrize("name", draw.DRAWINGS)
def test_committed_diagram_matches_script(name):
    drawing = draw.DRAWINGS[name]().svg()
    assert (ROOT / "images" / name).read_text(encoding="utf-8") == drawing, f"images/{name} is stale: run `make images`"
    assert "<title" in drawing and "<desc" in drawing


def test_map_shows_every_lesson():
    assert sorted(draw.heads()) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_text_of_the_map_stays_in_its_boxes():
    """Measured in DejaVu Sans, the widest of the fonts that the drawings ask for."""
    size = "{http://www.w3.org/2000/svg}"
    drawing = ElementTree.fromstring(draw.DRAWINGS["course_map.svg"]().svg())
    boxes = [
        [float(each.get(name, 0)) for name in ("x", "y", "width", "height")] for each in drawing.iter(f"{size}rect")
    ]
    for text in drawing.iter(f"{size}text"):
        weight = "bold" if text.get("font-weight") else "normal"
        drawn = TextPath(
            (0, 0), text.text, size=13, prop=FontProperties(family="DejaVu Sans", weight=weight)
        ).get_extents()
        x, y = (float(text.get(name)) for name in ("x", "y"))
        left = x - drawn.width if text.get("text-anchor") == "end" else x
        own = [box for box in boxes[1:] if box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3]]
        assert len(own) == 1 and own[0][0] <= left and left + drawn.width <= own[0][0] + own[0][2], text.text
