"""The committed diagrams are what their script draws, and each says in words what it shows."""

import xml.etree.ElementTree as ElementTree

import draw
import pytest

from course.shared.themes import HEX, PAGE
from helpers import ROOT

IMAGES = ROOT / "images"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", draw.DRAWINGS)
def test_committed_diagram_matches_script(name):
    drawing = draw.DRAWINGS[name]().svg()
    committed = (IMAGES / name).read_text(encoding="utf-8")
    assert committed == drawing, f"images/{name} is stale: run `make images`"
    root = ElementTree.fromstring(drawing)
    assert root.find(f"{SVG}title").text and len(root.find(f"{SVG}desc").text) > 60
    rules, drawn = drawing.split("</style>")
    light, dark = (set(HEX.findall(half)) for half in rules.split("prefers-color-scheme:dark"))
    assert "#ffffff" in light and PAGE in dark and "#ffffff" not in dark
    assert not HEX.findall(drawn) and "white" not in drawn
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for box in root.iter(f"{SVG}rect"):  # nothing lies beyond the edges
        if not box.get("width").endswith("%"):
            assert float(box.get("x", 0)) + float(box.get("width")) <= width
            assert float(box.get("y", 0)) + float(box.get("height")) <= height


def test_map_shows_every_lesson_that_there_is():
    assert sorted(draw.heads()) == sorted(path.stem for path in (IMAGES.parent / "notebooks").glob("*.ipynb"))
    description = draw.course_map().svg().split("<desc")[1].split("</desc>")[0]
    assert all(f"{name}, {minutes} minutes" in description for name, (_, _, minutes) in draw.heads().items())
