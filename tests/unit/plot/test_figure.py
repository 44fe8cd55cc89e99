"""Shared properties of figures: two themes and legible text."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest
from matplotlib.colors import to_rgb

from course import plot
from course.shared.figure import COLORS, GRAY
from course.shared.themes import HEX, PAGE, contrast, in_the_dark

SEEN = 3  # contrast of what is not text (Web Content Accessibility Guidelines 2.2, 1.4.11)


def test_colors_have_contrast_in_both_themes():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)  # as in the guidelines
    for color in (*COLORS, GRAY):
        assert contrast(color, "#ffffff") >= SEEN and contrast(in_the_dark(color), PAGE) >= SEEN
    # In the dark, page and ink change places, and hues stay.
    assert in_the_dark("#ffffff") == PAGE and contrast(in_the_dark("#000000"), PAGE) > 15
    for color in COLORS:
        light, dark = (sorted(range(3), key=to_rgb(each).__getitem__) for each in (color, in_the_dark(color)))
        assert light == dark or len(set(to_rgb(color))) == 1


def test_figure_has_both_themes_and_legible_text():
    html = plot.plot_minima()._repr_mimebundle_()["text/html"]
    (source,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    svg = base64.b64decode(source).decode()
    root = ElementTree.fromstring(svg)
    rules, drawn = svg.split("</style>", 1)
    light, dark = (
        dict(re.findall(r"(--c\d+):(#[0-9a-f]{6})", half)) for half in rules.split("prefers-color-scheme:dark")
    )
    assert {name: in_the_dark(color) for name, color in light.items()} == dark
    assert set(re.findall(r"var\((--c\d+)\)", drawn)) <= set(light) and "#ffffff" in light.values()
    assert not HEX.findall(drawn.split("<defs>", 1)[1])  # of one theme only
    width, least = (float(re.search(rule, html)[1]) for rule in (r'width="(\d+)"', r'style="[^"]*min-width:(\d+)px'))
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:\d+ )?([\d.]+)px", drawn)]
    assert sizes and least / float(root.get("viewBox").split()[2]) * max(sizes) >= 11
    assert ".ddl-picture" in html and width == round(96 * plot.plot_minima().get_figwidth())


def test_a_users_own_settings_change_no_figure(monkeypatch):
    plain = plot.plot_minima()._repr_mimebundle_()["text/html"]
    with matplotlib.rc_context(
        {"text.usetex": True, "lines.linewidth": 9, "axes.grid": True, "savefig.facecolor": "red"}
    ):
        assert plot.plot_minima()._repr_mimebundle_()["text/html"] == plain
