"""Difference between two scripts: the lines that a strategy adds."""

import ast
import difflib
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ddl.launcher.job import resolve_script
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


@dataclass(frozen=True)
class Line:
    """A line of a comparison; a "gap" replaces lines that are the same in both files."""

    kind: str
    number: int | None  # line in the second file, or in the first if removed
    text: str


@dataclass(frozen=True)
class Difference:
    """The changes from one script to another.

    Docstrings, empty lines and changes of indentation are ignored.
    """

    first: str
    second: str
    lines: tuple

    @property
    def added(self):
        """Number of lines added, without comments."""
        return self._count("added")

    @property
    def removed(self):
        """Number of lines removed, without comments."""
        return self._count("removed")

    def _count(self, kind):
        return sum(line.kind == kind and not line.text.lstrip().startswith("#") for line in self.lines)

    @property
    def caption(self):
        return (
            f"{self.first} → {self.second}: {plural(self.added, 'line')} more, "
            f"{self.removed} fewer, comments not counted"
        )

    def __repr__(self):
        return "\n".join([self.caption, *map(_text, self.lines)])

    def _repr_html_(self):
        rows = "".join(f'<span class="{line.kind}">{escape(_text(line)) or " "}</span>' for line in self.lines)
        return (
            f'{STYLE}<div class="ddl"><div>{escape(self.caption)}</div><pre class="ddl-difference">{rows}</pre></div>'
        )


def _text(line):
    number = f"{line.number:3d}" if line.number else "   "
    return f"{number} {SIGNS[line.kind]} {line.text}".rstrip()


def difference(first: str | Path, second: str | Path) -> Difference:
    """Compare two scripts line by line: paths, or names of the course's own, such as ``"strategies/single.py"``.

    Raises JobError if one of them does not exist.
    """
    old, new = (_lines(resolve_script(script, os.getcwd())) for script in (first, second))
    matcher = difflib.SequenceMatcher(
        None, *([text.strip() for _, text in lines] for lines in (old, new)), autojunk=False
    )
    shown, reached = [], 0
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if group[0][3] > reached:
            shown.append(Line("gap", None, ""))
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                shown += [Line("same", *line) for line in new[new_from:new_to]]
                continue
            shown += [Line("removed", *line) for line in old[old_from:old_to]]
            shown += [Line("added", *line) for line in new[new_from:new_to]]
        reached = group[-1][4]
    if shown and reached < len(new):
        shown.append(Line("gap", None, ""))
    return Difference(_short(first), _short(second), tuple(shown))


def _short(script):
    """Return the file's name, with its folder's if needed to distinguish it."""
    return "/".join(Path(script).parts[-2:])


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
