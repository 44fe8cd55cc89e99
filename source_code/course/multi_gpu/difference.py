"""Difference between two scripts: the lines that a strategy adds."""

import ast
import difflib
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

from ddl.job.scripts import resolve_script
from ddl.text import plural

CONTEXT = 1  # lines of context around a change
SIGNS = {"added": "+", "removed": "−", "same": " ", "gap": "⋯"}
# Colors that differ in lightness for color-blind readers; the signs also show the difference.
STYLE = """<style>
.ddl-difference{line-height:1.35;overflow-x:auto;padding:.4em .6em;border:1px solid #bbb}
.ddl-difference span{display:block;white-space:pre}
.ddl-difference .added{background:#d8efff;color:#003a66;font-weight:600}
.ddl-difference .removed{background:#ffe9d6;color:#7a3300}
.ddl-difference .gap{color:#777}
</style>"""


class Line(NamedTuple):
    """A line of a comparison; a "gap" replaces lines that are the same in both files."""

    kind: str
    number: int | None = None  # line in the second file, or in the first if removed
    text: str = ""

    def __str__(self):
        return f"{self.number or '':3} {SIGNS[self.kind]} {self.text}".rstrip()


@dataclass(frozen=True)
class Difference:
    """The changes from one script to another, without docstrings, empty lines and changes of indentation."""

    first: str
    second: str
    lines: tuple[Line, ...]

    def count(self, kind: str) -> int:
        """Return the number of lines "added" or "removed", without comments."""
        return sum(line.kind == kind and not line.text.lstrip().startswith("#") for line in self.lines)

    @property
    def caption(self):
        return (
            f"{self.first} → {self.second}: {plural(self.count('added'), 'line')} more, "
            f"{self.count('removed')} fewer, comments not counted"
        )

    def __repr__(self):
        return "\n".join([self.caption, *map(str, self.lines)])

    def _repr_html_(self):
        rows = "".join(f'<span class="{line.kind}">{escape(str(line)) or " "}</span>' for line in self.lines)
        return (
            f'{STYLE}<div class="ddl"><div>{escape(self.caption)}</div><pre class="ddl-difference">{rows}</pre></div>'
        )


def difference(first: str | Path, second: str | Path) -> Difference:
    """Compare two scripts line by line: paths, or names of the course's own, such as ``"strategies/single.py"``.

    Raises JobError if one of them does not exist.
    """
    old, new = (_lines(resolve_script(script, os.getcwd())) for script in (first, second))
    matcher = difflib.SequenceMatcher(
        None, *([text.strip() for _, text in lines] for lines in (old, new)), autojunk=False
    )
    shown: list[Line] = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][3]:  # not at the beginning
            shown.append(Line("gap"))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                shown += [Line("same", *line) for line in new[new_from:new_to]]
                continue
            shown += [Line("removed", *line) for line in old[old_from:old_to]]
            shown += [Line("added", *line) for line in new[new_from:new_to]]
    return Difference(*("/".join(Path(script).parts[-2:]) for script in (first, second)), tuple(shown))


def _lines(path):
    """Return number and text of each line with code or a comment, without docstrings."""
    source = Path(path).read_text()
    silent = set()
    for node in ast.walk(ast.parse(source)):
        documented = isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        if documented and ast.get_docstring(node):
            silent |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return [
        (number, text)
        for number, text in enumerate(source.splitlines(), start=1)
        if text.strip() and number not in silent
    ]
