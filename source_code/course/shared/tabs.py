"""Scripts side by side: one tab each in a notebook, one after the other as text."""

import os
import re
import uuid
from collections.abc import Mapping
from html import escape
from pathlib import Path

from ddl.job.scripts import resolve_script

STEP = re.compile(r"# \d ")  # a comment that numbers one of a recipe's steps
STYLE = """<style>
.ddl-tabs{border:1px solid #8888;border-radius:4px}
.ddl-tabs input{position:absolute;opacity:0}
.ddl-tabs label{display:inline-block;margin:0;padding:.3em .8em;cursor:pointer;border-bottom:2px solid #0000}
.ddl-tabs input:checked+label{border-bottom-color:#0072b2;font-weight:600}
.ddl-tabs input:focus-visible+label{outline:2px solid #0072b2}
.ddl-tabs.ddl-tabs.ddl-tabs pre{display:none;margin:0;padding:.5em .8em;overflow-x:auto;line-height:1.35;
  border-top:1px solid #8888;white-space:pre;word-break:normal;overflow-wrap:normal}  /* JupyterLab's break words */
.ddl-tabs b{background:#0072b233}
</style>"""


class Tabs:
    """Scripts under their titles; lines that number a step are highlighted.

    `scripts` are paths, or names of the course's own. Raises JobError if one does not exist.
    """

    def __init__(self, scripts: Mapping[str, str | Path]):
        found = {title: resolve_script(script, os.getcwd()) for title, script in scripts.items()}
        self._texts = {title: Path(path).read_text().strip() for title, path in found.items()}

    def __repr__(self):
        return "\n\n".join(f"{title}\n{'-' * len(title)}\n{text}" for title, text in self._texts.items())

    def _repr_html_(self):
        name, heads, bodies, rules = f"t{uuid.uuid4().hex[:8]}", "", "", ""
        for at, (title, text) in enumerate(self._texts.items()):
            tab = f"{name}-{at}"
            heads += f'<input type="radio" name="{name}" id="{tab}"{"" if at else " checked"}>'
            heads += f'<label for="{tab}">{escape(title)}</label>'
            lines = (f"<b>{escape(line)}</b>" if STEP.search(line) else escape(line) for line in text.splitlines())
            bodies += f'<pre id="{tab}-text" tabindex="0">{"<br>".join(lines)}</pre>'
            rules += f"#{tab}:checked~#{tab}-text{{display:block}}"
        return f'{STYLE}<style>{rules}</style><div class="ddl-tabs">{heads}{bodies}</div>'
