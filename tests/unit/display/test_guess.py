"""A guess beside its outcome."""

import numpy
import pytest

from ddl.display.guess import beside


@pytest.mark.parametrize(
    "guess, shown",
    [(None, "no guess made"), (0, "your guess: 0"), (0.125, "your guess: 0.125"), ("diverges", "your guess: diverges")],
)
def test_a_guess_stands_beside_what_came_out(guess, shown):
    pair = beside(guess, numpy.float64(1 / 3), "weight")
    assert repr(pair) == f"weight: {shown} · came out: 0.3333"
    assert shown in pair._repr_html_() and "<b>0.3333</b>" in pair._repr_html_()


def test_what_a_reader_types_is_shown_and_not_run():
    html = beside("<script>alert(1)</script>", "a < b", "x & y")._repr_html_()
    assert "<script>" not in html and "a &lt; b" in html and "x &amp; y" in html
