"""Merge of a student's work into the released lesson."""

import base64
import copy
import json
import re
from collections import defaultdict
from urllib.parse import unquote

import nbformat
from mistune.util import escape_url
from nbformat import v4
from nbgrader import utils

from ddl.errors import CourseError

# Of these, a browser shows a picture and runs nothing.
PICTURES = ("image/png", "image/jpeg", "image/gif")
# What a browser takes for a tag, a character reference or a link that runs code (it ignores line ends and tabs in a
# link), and pictures that are neither pasted nor the lesson's.
ACTIVE = re.compile(
    r"(<(?=[A-Za-z/!?])|&(?=#|\w+;)|(?:s\s*c\s*r\s*i\s*p\s*t|d\s*a\s*t\s*a)[\s\\]*(?=:)"
    r"|!(?=\[)(?!\[[^\]\n]*\]\((?:attachment:|(?:\.\./)?images/[\w-]+\.\w+[\s)])))",
    re.IGNORECASE,
)
PASTED = re.compile(r"!\[[^\]\n]*\]\(attachment:([^\s)]*)", re.IGNORECASE)
NO_SPACE = "\u200b"  # zero-width: splits it invisibly


class Unreadable(CourseError, ValueError):
    """Hand-in is not a notebook."""


def cells(content: bytes) -> list[dict]:
    """The cells of an untrusted notebook file, with checked types; one of format 3 is converted."""
    try:
        notebook = json.loads(content)  # in UTF-8, UTF-16 or UTF-32
        if isinstance(notebook, dict) and "worksheets" in notebook:
            notebook = nbformat.reads(json.dumps(notebook), as_version=4)
        found = notebook["cells"]
    except Exception as error:  # nbformat's converter expects the right type everywhere
        raise Unreadable(f"the file is not a notebook ({type(error).__name__}: {error})") from None
    if not isinstance(found, list):
        raise Unreadable("the file is not a notebook: it has no list of cells")
    return [cell for cell in map(_cell, found) if cell]


def answered(release, handed_in: list[dict]):
    """Return the released lesson with a student's work (from `cells`) in it, and notes for a person.

    It does what the student's notebook does: answers and the lesson's ungraded cells are as the student left them, and
    the student's own cells, including parts of a split cell, follow the same lesson cell as before. Test cells and
    questions are as released. Lesson cells are found by `grade_id`, id or text.
    """
    notebook, odd = copy.deepcopy(release), defaultdict(list)
    by_grade_id = {_grade_id(cell): cell for cell in notebook.cells if _grade_id(cell)}
    by_id = {cell.id: cell for cell in notebook.cells}
    by_text = {_text(cell.source): cell for cell in notebook.cells}
    own: dict[str, list] = defaultdict(list)  # the student's own cells, by the lesson's cell above them
    seen: set[str] = set()
    above = ""
    for cell in handed_in:
        ours = by_grade_id.get(cell["grade_id"]) or by_id.get(cell["id"])
        ours = ours or by_text.get(_text(cell["source"]))
        if ours is None or (ours.id in seen and not _grade_id(ours)):
            own[above] += [_own(cell)] if cell["source"].strip() else []
            continue
        again, same = ours.id in seen, _text(cell["source"]) == _text(ours.source)
        seen.add(ours.id)
        if not again:
            place, above = above, ours.id
        if same:
            continue
        if _grade_id(ours) and not utils.is_solution(ours):
            what = (
                "graded cells appeared more than once, of which the first counts"
                if again
                else "graded cells were changed"
            )
            odd[what].append(_grade_id(ours))
        elif again and ours.cell_type == "code":  # JupyterLab gives both parts of a split cell the same id
            own[above].append(_own(cell | {"cell_type": "code"}))
        elif again:
            first = ours.source
            _show(ours, cell)
            ours.source = f"{first}\n\n{ours.source}"
        elif cell["cell_type"] != ours.cell_type and not utils.is_solution(ours):
            own[place].append(_own(cell))
        elif ours.cell_type == "code":
            ours.source = cell["source"]
        else:
            _show(ours, cell)
    for cell in notebook.cells:
        if cell.id not in seen and (utils.is_grade(cell) or utils.is_solution(cell)):
            odd["graded cells were deleted"].append(_grade_id(cell))
            if utils.is_solution(cell):
                cell.source = ""  # a stub would override an answer in another cell
    notebook.cells = list(_in_order(notebook.cells, own, seen))
    for number, cell in enumerate((c for c in notebook.cells if c.id not in by_id), start=1):
        cell.id = f"own-{number}"
    return notebook, [f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in odd.items()]


def harmless(source: str) -> str:
    """Return Markdown that a page shows as it was typed: tags, links that run code and pictures from elsewhere."""
    return ACTIVE.sub(rf"\1{NO_SPACE}", source)


def _in_order(ours, own, seen):
    """Yield the lesson's cells, each followed by the student's own cells that belong there.

    Own cells come after cells that were put back, which they may be parts of, but before a test.
    """
    waiting = own[""]
    if not seen:  # not a notebook of this lesson
        yield from waiting
        waiting = []
    for cell in ours:
        if cell.id in seen or utils.is_grade(cell):
            yield from waiting
            waiting = []
        yield cell
        waiting = [*waiting, *own[cell.id]]
    yield from waiting


def _cell(found):
    """The parts of a cell that are used; None if it is not a cell, or none of a class's lesson."""
    if not isinstance(found, dict):
        return None
    source = found.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if found.get("cell_type") not in ("code", "markdown", "raw") or not isinstance(source, str):
        return None
    metadata = found["metadata"] if isinstance(found.get("metadata"), dict) else {}
    ours = metadata.get("nbgrader")
    grade_id = ours.get("grade_id") if isinstance(ours, dict) else None
    tags = metadata["tags"] if isinstance(metadata.get("tags"), list) else []
    if "navigation" in tags:
        return None  # the course's own notebooks lead to their neighbors, a class's do not
    return {
        "cell_type": found["cell_type"],
        # Half a surrogate pair is valid JSON but cannot be written to a file.
        "source": source.encode("utf-8", "replace").decode().replace("](../images/", "](images/"),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "id": found["id"] if isinstance(found.get("id"), str) else None,
        "demo": "demo" in tags,
        "attachments": found.get("attachments"),
    }


def _own(cell):
    if cell["cell_type"] == "code":
        # A copy of a demo cell is a demo cell.
        return v4.new_code_cell(cell["source"], metadata={"tags": ["demo"]} if cell["demo"] else {})
    made = v4.new_markdown_cell()
    _show(made, cell)
    return made


def _show(made, cell):
    """Give a Markdown cell a student's text and pictures."""
    made.source, pictures = harmless(cell["source"]), _pictures(cell["attachments"])
    for name in PASTED.findall(made.source):  # nbconvert needs each, under the name that mistune gives it
        pictures.setdefault(escape_url(name), pictures.get(unquote(name), {"image/png": ""}))
    if pictures:
        made.attachments = made.get("attachments", {}) | pictures


def _pictures(attachments):
    """The pictures among a Markdown cell's attachments; none if these are not as Jupyter makes them."""
    try:
        return {
            name.encode().decode(): {kind: base64.b64encode(base64.b64decode(data)).decode()}
            for name, kinds in (attachments or {}).items()
            for kind, data in kinds.items()
            if kind in PICTURES
        }
    except (AttributeError, TypeError, ValueError):
        return {}


def _grade_id(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _text(source):
    return "\n".join(line.rstrip() for line in source.strip().splitlines())
