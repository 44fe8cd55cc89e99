"""What all pictures share: two themes, a look for each arm, and letters that stay readable."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import pytest
from matplotlib.colors import to_rgb

from course import plot, recorded
from course.shared.picture import COLOURS, GREY, arm_looks
from ddl.display.themes import HEX, PAGE, contrast, in_the_dark

SEEN = 3  # contrast of what is not text (Web Content Accessibility Guidelines 2.2, 1.4.11)
FINAL = ("small batch + BN", "large batch + BN", "+ linear scaling, warm-up", "LARS", "LAMB")  # lesson 4, section 9


def test_colours_are_seen_on_both_pages():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)  # as in the guidelines
    for colour in (*COLOURS, GREY):
        assert contrast(colour, "#ffffff") >= SEEN and contrast(in_the_dark(colour), PAGE) >= SEEN
    # In the dark, page and ink change places, and hues stay.
    assert in_the_dark("#ffffff") == PAGE and contrast(in_the_dark("#000000"), PAGE) > 15
    for colour in COLOURS:
        light, dark = (sorted(range(3), key=to_rgb(each).__getitem__) for each in (colour, in_the_dark(colour)))
        assert light == dark or len(set(to_rgb(colour))) == 1


def test_a_picture_holds_both_themes_and_its_letters_stay_readable():
    html = plot.plot_minima()._repr_mimebundle_()["text/html"]
    (source,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    svg = base64.b64decode(source).decode()
    root = ElementTree.fromstring(svg)
    rules, drawn = svg.split("</style>", 1)
    light, dark = (
        dict(re.findall(r"(--c\d+):(#[0-9a-f]{6})", half)) for half in rules.split("prefers-color-scheme:dark")
    )
    assert {name: in_the_dark(colour) for name, colour in light.items()} == dark
    assert set(re.findall(r"var\((--c\d+)\)", drawn)) <= set(light) and "#ffffff" in light.values()
    assert not HEX.findall(drawn.split("<defs>", 1)[1])  # of one theme only
    width, least = (float(re.search(rule, html)[1]) for rule in (r'width="(\d+)"', r'style="[^"]*min-width:(\d+)px'))
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:\d+ )?([\d.]+)px", drawn)]
    assert sizes and least / float(root.get("viewBox").split()[2]) * max(sizes) >= 11
    assert ".ddl-picture" in html and width == round(96 * plot.plot_minima().get_figwidth())


def test_each_recorded_arm_of_the_course_has_its_own_colour_and_marker():
    names = list(dict.fromkeys(run.name for run in recorded("convergence-cifar10")))
    looks = arm_looks(names)
    pairs = {(style["color"], style["marker"]) for style in looks.values()}
    assert len(pairs) == len(names) > len(COLOURS)
    assert len({style["color"] for style in looks.values()}) == len(COLOURS)


def test_an_arm_keeps_its_look_in_all_figures_and_in_none_two_share_a_colour():
    lesson = [["small batch + BN", "same rate", "few steps"], [*"abcd"], ["large batch + BN", *"efgh"], FINAL]
    known = {}
    for names in lesson:
        looks = arm_looks(names)
        assert len({style["color"] for style in looks.values()}) == len(names)
        assert all(known.setdefault(name, style) == style for name, style in looks.items())
    assert known["LARS"]["color"] != known["small batch + BN"]["color"]
