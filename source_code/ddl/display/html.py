"""HTML text and tables for display in notebooks."""

import re
from collections.abc import Iterable, Sequence
from html import escape

from ddl.display.style import STYLE

CODE = re.compile(r"`([^`\n]+)`")


class Markup(str):
    """HTML that is not escaped again."""

    __slots__ = ()


def prose(text: str) -> Markup:
    """Return text as HTML: escaped, with parts in `backticks` formatted as code."""
    return Markup(CODE.sub(r"<code>\1</code>", escape(str(text))))


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], under: str = "", attributes: str = "") -> str:
    """Return a table with optional `heads` that scrolls if it is too wide, followed by `under`.

    Cells and heads are text (see `prose`); `under` and the table's `attributes` are HTML.
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
