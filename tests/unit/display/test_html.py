"""Text and tables in HTML: what a reader types is shown, and not run."""

from ddl.display.html import Markup, html_table, prose


def test_table_cells_are_escaped():
    html = html_table(("<a>",), [("<b>",), (Markup("<i>c</i>"),)], under="<p>d</p>")
    assert "<th>&lt;a&gt;</th>" in html and "<td>&lt;b&gt;</td>" in html
    assert "<td><i>c</i></td>" in html and "<p>d</p>" in html


def test_code_in_prose_is_escaped_and_shown_as_code():
    assert prose("run `ddl <x>` & `y`") == "run <code>ddl &lt;x&gt;</code> &amp; <code>y</code>"
    assert prose("a lone ` stays") == "a lone ` stays"
    html = html_table((), [("see `x`",)])
    assert "<td>see <code>x</code></td>" in html and "<thead>" not in html
