"""The committed diagrams are what their script draws, and each has a text alternative."""

import draw
import pytest

from helpers import ROOT


@pytest.mark.parametrize("name", draw.DRAWINGS)
def test_committed_diagram_matches_script(name):
    drawing = draw.DRAWINGS[name]().svg()
    assert (ROOT / "images" / name).read_text(encoding="utf-8") == drawing, f"images/{name} is stale: run `make images`"
    assert "<title" in drawing and "<desc" in drawing


def test_map_shows_every_lesson():
    assert sorted(draw.heads()) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
