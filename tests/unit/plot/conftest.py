"""What tests of figures share."""

import matplotlib
import pytest

from ddl.plot import picture


@pytest.fixture(autouse=True)
def new_session(monkeypatch):
    """No arm has been drawn yet."""
    monkeypatch.setattr(picture, "_NUMBERS", {})


@pytest.fixture
def drawn():
    """Return a function that draws a figure, and checks what holds of each: words, labels, and nothing set for good."""

    def draw(figure):
        before = dict(matplotlib.rcParams)
        made = figure()
        assert dict(matplotlib.rcParams) == before
        bundle = made._repr_mimebundle_()
        assert bundle["text/plain"] == made.alt and len(made.alt) > 40
        assert 'alt="' in bundle["text/html"] and "data:image/svg+xml;base64," in bundle["text/html"]
        panels = [panel for panel in made.axes if panel.axison]
        assert any(panel.get_xlabel() for panel in panels) and all(panel.has_data() for panel in panels)
        return made, " ".join([*(panel.get_title() for panel in made.axes), made.get_suptitle()])

    return draw
