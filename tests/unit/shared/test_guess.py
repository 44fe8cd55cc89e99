"""A guess and its outcome: what a reader types is shown, and not run."""

import numpy
import pytest

from course.shared.guess import compare_guess
from ddl.display.html import prose


@pytest.mark.parametrize(
    "guess, shown", [(None, "no guess"), (0, "guess: 0"), (0.125, "guess: 0.125"), ("<b>", "guess: <b>")]
)
def test_a_guess_is_shown_with_the_outcome(guess, shown):
    pair = compare_guess(guess, numpy.float64(1 / 3), "x & y")
    assert "x & y: " in repr(pair) and shown in repr(pair) and repr(pair).endswith(": 0.3333")
    html = pair._repr_html_()
    assert prose(shown) in html and "<b>0.3333</b>" in html and "x &amp; y" in html
