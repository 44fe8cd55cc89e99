"""A guess and its outcome: what a reader types is shown, and not run."""

import numpy
import pytest

from course.shared.guess import Bets, compare_guess
from ddl.display.html import prose


@pytest.mark.parametrize(
    "guess, shown", [(None, "no guess"), (0, "guess: 0"), (0.125, "guess: 0.125"), ("<b>", "guess: <b>")]
)
def test_a_guess_is_shown_with_the_outcome(guess, shown):
    pair = compare_guess(guess, numpy.float64(1 / 3), "x & y")
    assert "x & y: " in repr(pair) and shown in repr(pair) and repr(pair).endswith(": 0.3333")
    html = pair._repr_html_()
    assert prose(shown) in html and "<b>0.3333</b>" in html and "x &amp; y" in html


def test_bets_are_summed_and_a_cell_that_runs_again_replaces_its_bet():
    bets = Bets()
    for _ in range(2):
        compare_guess(1.5, 1.49, "close", bets)
    for what, guess, outcome in (("far", 1.5, 1.4), ("none", None, 0), ("same", float("inf"), float("inf"))):
        compare_guess(guess, outcome, what, bets)
    assert "2 of 4 bets right, 3 made" in repr(bets) and "2 of 4 bets right, 3 made" in bets._repr_html_()
    assert [each.right for each in bets.values()] == [True, False, False, True]
