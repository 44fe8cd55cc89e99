"""Text, tables and guesses in HTML: what a reader types is shown, and not run."""

import numpy
import pytest

from ddl.display.guess import beside
from ddl.display.html import Markup, html_table, prose


@pytest.mark.parametrize(
    "guess, shown", [(None, "no guess"), (0, "guess: 0"), (0.125, "guess: 0.125"), ("<b>", "guess: <b>")]
)
def test_a_guess_is_shown_with_the_outcome(guess, shown):
    pair = beside(guess, numpy.float64(1 / 3), "x & y")
    assert "x & y: " in repr(pair) and shown in repr(pair) and repr(pair).endswith(": 0.3333")
    html = pair._repr_html_()
    assert prose(shown) in html and "<b>0.3333</b>" in html and "x &amp; y" in html


def test_cells_and_heads_are_escaped_and_markup_is_not():
    html = html_table(("<a>",), [("<b>",), (Markup("<i>c</i>"),)], under="<p>d</p>")
    assert "<th>&lt;a&gt;</th>" in html and "<td>&lt;b&gt;</td>" in html
    assert "<td><i>c</i></td>" in html and "<p>d</p>" in html


def test_code_in_prose_is_shown_as_code_and_nothing_is_markup():
    assert prose("run `ddl <x>` & `y`") == "run <code>ddl &lt;x&gt;</code> &amp; <code>y</code>"
    assert prose("a lone ` stays") == "a lone ` stays"
    html = html_table((), [("see `x`",)])
    assert "<td>see <code>x</code></td>" in html and "<thead>" not in html
