"""Merge of a student's work into the released lesson."""

import base64
import binascii
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
PASTED = re.compile(r"!(?=\[[^\]\n]*\]\(attachment:([^\s)]*))", re.IGNORECASE)
NO_SPACE = "\u200b"  # zero-width: splits it invisibly


class Unreadable(CourseError, ValueError):
    """Hand-in is not a notebook."""


def cells(content: bytes) -> list[dict]:
    """The cells of an untrusted notebook file, with checked types; one of format 3 is converted."""
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        notebook = json.loads(content)  # in UTF-8, UTF-16 or UTF-32
        if isinstance(notebook, dict) and "worksheets" in notebook:
            notebook = nbformat.convert(nbformat.from_dict(notebook), 4)
    except UnicodeDecodeError:
        raise Unreadable("the file is not UTF-8 text") from None
    except (ValueError, RecursionError):
        conflict = ", with the marks of a merge conflict in it" * (b"\n<<<<<<< " in content)
        raise Unreadable(f"the file is not a notebook: its JSON is broken{conflict}") from None
    except Exception as error:  # nbformat's converter expects the right type everywhere
        raise Unreadable(f"the file is a notebook of format 3 that cannot be converted ({error!r})") from None
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(found, list):
        raise Unreadable("the file is not a notebook: it has no cells")
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
        if ours is not None and ours.id not in seen:
            seen.add(ours.id)
            what, rest = _take(cell, ours)
            own[above] += rest
            above = ours.id
        elif cell["source"].strip():
            rest, what = _again(cell, ours, above) if ours is not None and _grade_id(ours) else ([_own(cell)], "")
            own[above] += rest
        else:
            continue
        if what:
            odd[what].append(_name(ours))
    for cell in notebook.cells:
        if cell.id in seen:
            continue
        if utils.is_solution(cell):
            cell.source = ""  # a stub would override an answer in another cell
        if utils.is_grade(cell) or utils.is_solution(cell):
            odd["graded cells were deleted"].append(_name(cell))
        elif cell.cell_type == "code" and not _grade_id(cell) and "demo" not in cell.metadata.get("tags", ()):
            odd["cells were deleted, and put back"].append(_name(cell))
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
        "source": source.encode("utf-8", "replace").decode(),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "id": found["id"] if isinstance(found.get("id"), str) else None,
        "demo": "demo" in tags,
        "attachments": found.get("attachments"),
    }


def _take(cell, ours):
    """Put a student's text into a lesson cell that may change.

    Return what is odd, and the student's own cells made of what has no place in it.
    """
    if "](../images/" not in ours.source:  # the course's own notebooks have pictures elsewhere
        cell = cell | {"source": cell["source"].replace("](../images/", "](images/")}
    what, same = "", _text(cell["source"]) == _text(ours.source)
    if not utils.is_solution(ours):
        if cell["cell_type"] != ours.cell_type:
            return "cells were made text or code, and are again what they were", [] if same else [_own(cell)]
        if _grade_id(ours):
            return "" if same else "graded cells were changed", []
    elif cell["cell_type"] != ours.cell_type == "code":
        what = "graded cells were made text, and are code again"
    if not same:
        ours.source = cell["source"]
        if ours.cell_type != "code":
            _show(ours, cell)
    return what, []


def _again(cell, ours, above):
    """Return the student's own cells made of a second cell with a question's id, and what is odd.

    JupyterLab gives both parts of a split cell the same id: they are joined in their order.
    """
    if _text(cell["source"]) == _text(ours.source):
        return [], ""
    if not utils.is_solution(ours):
        return [], "graded cells appeared more than once, of which the first counts"
    what = "" if above == ours.id else "answers appeared more than once, and are joined in their order"
    if ours.cell_type == "code":
        return [_own(cell | {"cell_type": "code"})], what
    first = ours.source
    _show(ours, cell)
    ours.source = f"{first}\n\n{ours.source}"
    return [], what


def _own(cell):
    if cell["cell_type"] == "code":
        # A copy of a demo cell is a demo cell.
        return v4.new_code_cell(cell["source"], metadata={"tags": ["demo"]} if cell["demo"] else {})
    made = v4.new_markdown_cell()
    _show(made, cell)
    return made


def _show(made, cell):
    """Give a Markdown cell a student's text and pictures, without missing ones, on which nbconvert fails."""
    pictures = _pictures(cell["attachments"])

    def found(match):
        name = match[1]
        picture = pictures.get(name) or pictures.get(unquote(name))
        if not picture or "\\" in name:
            return f"!{NO_SPACE}"
        pictures[escape_url(name)] = picture  # nbconvert's key
        return "!"

    made.source = PASTED.sub(found, harmless(cell["source"]))
    if pictures:
        made.attachments = made.get("attachments", {}) | pictures


def _pictures(attachments):
    """The pictures among a Markdown cell's attachments."""
    kept = {}
    for name, kinds in attachments.items() if isinstance(attachments, dict) else ():
        for kind, data in kinds.items() if isinstance(kinds, dict) else ():
            try:
                picture = base64.b64decode(data) if kind in PICTURES else b""
            except (binascii.Error, TypeError, ValueError):
                continue
            if picture:
                name = name.encode("utf-8", "replace").decode()
                kept[name] = {kind: base64.b64encode(picture).decode()}
    return kept


def _grade_id(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def _name(cell):
    return _grade_id(cell) or f"“{cell.source.strip().partition(chr(10))[0][:40]}”"


def _text(source):
    return "\n".join(line.rstrip() for line in source.strip().splitlines())
