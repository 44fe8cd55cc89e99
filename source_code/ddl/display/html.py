"""Text and tables in HTML, for what shows itself in a notebook."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from ddl.display.style import STYLE

CODE = re.compile(r"`([^`\n]+)`")


class Markup(str):
    """HTML that goes into a cell as it is."""

    __slots__ = ()


def prose(text: str) -> Markup:
    """Return text as HTML: escaped, with what stands in `backticks` as code."""
    return Markup(CODE.sub(r"<code>\1</code>", escape(str(text))))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], under: str = "", attributes: str = "") -> str:
    """Return a table with `heads` (none: no row of them), scrolled where it is too wide, with `under` below it.

    Cells and heads are `prose`; `under` and the table's `attributes` are HTML.
    """

    def row(tag, cells):
        texts = (text if isinstance(text, Markup) else prose(text) for text in cells)
        return f"<tr>{''.join(f'<{tag}>{text}</{tag}>' for text in texts)}</tr>"

    head = f"<thead>{row('th', heads)}</thead>" if len(heads) else ""
    body = "".join(row("td", cells) for cells in rows)
    return (
        f'{STYLE}<div class="ddl ddl-wide"><div class="ddl-scroll"><table{f" {attributes}" if attributes else ""}>'
        f"{head}<tbody>{body}</tbody></table></div>{under}</div>"
    )
