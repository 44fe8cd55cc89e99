"""Put a student's work into the released lesson."""

import base64
import binascii
import copy
import json
import re
from collections import defaultdict
from urllib.parse import unquote

from mistune.util import escape_url
from nbformat import v4
from nbgrader import utils

from ddl.errors import CourseError

OWN_CELLS = 500  # more of them than anybody writes
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
DEFINED = re.compile(r"^(?:(?:async\s+)?def|class)\s+(\w+)|^(\w+)\s*(?::[^=\n]*)?=(?!=)", re.MULTILINE)
NO_SPACE = "\u200b"  # zero-width: splits it invisibly


class Unreadable(CourseError, ValueError):
    """A hand-in is not a notebook; the text says why."""


def cells(content: bytes) -> list[dict]:
    """The cells of an untrusted notebook file, with checked types."""
    if not content.strip():
        raise Unreadable("the file is empty")
    try:
        notebook = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable("the file is not UTF-8 text") from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is not a notebook: its JSON is broken") from None
    found = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(found, list):
        raise Unreadable("the file is not a notebook of format 4: it has no cells")
    return [cell for cell in map(_cell, found) if cell]


def recognized(release, handed_in: list[dict]) -> int:
    """How many of the lesson's answer cells are in a notebook."""
    ours = {_grade_id(cell) for cell in release.cells if utils.is_solution(cell)}
    return len(ours & {cell["grade_id"] for cell in handed_in})


def answered(release, handed_in: list[dict]):
    """Return the released lesson with a student's work (from `cells`) in it, and notes for a person.

    It does what the student's notebook does: answers and the lesson's ungraded cells are as the student left them, and
    the student's own cells, including parts of a split cell, follow the same lesson cell as before. Test cells and
    questions are as released. Lesson cells are found by `grade_id`, id or text.
    """
    notebook, notes, odd = copy.deepcopy(release), [], defaultdict(list)
    by_grade_id = {_grade_id(cell): cell for cell in notebook.cells if _grade_id(cell)}
    by_id = {cell.id: cell for cell in notebook.cells}
    by_text = {_text(cell.source): cell for cell in notebook.cells}
    own: dict[str, list] = {}
    seen: set[str] = set()
    above = ""
    left = OWN_CELLS
    for cell in handed_in:
        ours = by_grade_id.get(cell["grade_id"]) or by_id.get(cell["id"])
        ours = ours or by_text.get(_text(cell["source"]))
        if ours is not None and ours.id not in seen:
            seen.add(ours.id)
            for what, rest in _take(cell, ours):
                odd[what].append(_grade_id(ours) or _first_line(ours))
                own.setdefault(above, []).extend(rest)
            above = ours.id
        elif cell["source"].strip() and left:
            left -= 1
            made, what = _again(cell, ours, above) if _graded(ours) else ([_own(cell)], "")
            own.setdefault(above, []).extend(made)
            if what:
                odd[what].append(_grade_id(ours))
    if not left:
        notes.append(f"it has more than {OWN_CELLS} cells of its own: the others are left out")
    elsewhere = {
        line.strip()
        for cells in own.values()
        for cell in cells
        for line in cell.source.splitlines()
        if cell.cell_type == "code"
    }
    for cell in [cell for cell in notebook.cells if cell.id not in seen]:
        if utils.is_grade(cell) or utils.is_solution(cell):
            odd["graded cells were deleted"].append(_grade_id(cell))
            # A stub would override an answer in another cell.
            cell.source = cell.source if utils.is_grade(cell) else ""
        elif cell.cell_type == "code" and not _grade_id(cell):
            if all(line.strip() in elsewhere for line in cell.source.splitlines()):
                notebook.cells.remove(cell)  # it was split, or merged with another one
            elif "demo" not in cell.metadata.get("tags", ()):
                odd["cells were deleted, and put back"].append(_first_line(cell))
    notebook.cells = list(_in_order(notebook.cells, own, seen))
    for number, cell in enumerate((c for c in notebook.cells if c.id not in by_id), start=1):
        cell.id = f"own-{number}"
    for what, names in odd.items():
        notes.append(f"{what}: {', '.join(dict.fromkeys(names))}")
    return notebook, notes


def _in_order(ours, own, seen):
    """Yield the lesson's cells, each followed by the student's own cells that belong there.

    Own cells come after cells that were put back, which they may be parts of, but before a test.
    """
    waiting = own.get("", [])
    if not seen:  # not a notebook of this lesson
        yield from waiting
        waiting = []
    for cell in ours:
        if cell.id in seen or utils.is_grade(cell):
            yield from waiting
            waiting = []
        yield cell
        waiting = [*waiting, *own.get(cell.id, [])]
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
    metadata = found.get("metadata")
    ours = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    grade_id = ours.get("grade_id") if isinstance(ours, dict) else None
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    if isinstance(tags, list) and "navigation" in tags:
        return None  # the course's own notebooks lead to their neighbours, a class's do not
    return {
        "cell_type": found["cell_type"],
        # Half a surrogate pair is valid JSON but cannot be written to a file.
        "source": source.encode("utf-8", "replace").decode(),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "id": found["id"] if isinstance(found.get("id"), str) else None,
        "demo": isinstance(tags, list) and "demo" in tags,
        "attachments": found.get("attachments"),
    }


def _take(cell, ours):
    """Put a student's text into a lesson cell that may change.

    Yield oddities, each with the student's own cells made of what has no place in it.
    """
    if "](../images/" not in ours.source:  # the course's own notebooks have pictures elsewhere
        cell = cell | {"source": cell["source"].replace("](../images/", "](images/")}
    if utils.is_solution(ours):
        if cell["cell_type"] != ours.cell_type == "code":
            yield "graded cells were made text, and are code again", []
    elif cell["cell_type"] != ours.cell_type:
        same = _text(cell["source"]) == _text(ours.source)
        yield "cells were made text or code, and are again what they were", ([] if same else [_own(cell)])
        return
    if _text(cell["source"]) == _text(ours.source):
        return
    if not utils.is_solution(ours) and _grade_id(ours):
        rest = _text(cell["source"]).replace(_text(ours.source), "").strip()
        merged = utils.is_grade(ours) and rest != _text(cell["source"])
        # Run what was merged with a test; set aside anything else.
        kept = _own(cell | {"source": rest}) if merged else _set_aside(cell, _grade_id(ours))
        yield "graded cells were changed", [kept]
        return
    ours.source = cell["source"]
    if ours.cell_type != "code":
        ours.source, pictures = _shown(cell | {"source": ours.source})
        if pictures:
            ours.attachments = pictures


def _again(cell, ours, above):
    """Return the student's own cells made of a second cell with a question's id, and what is odd.

    JupyterLab gives both parts of a split cell the same id.
    """
    if _text(cell["source"]) == _text(ours.source):
        return [], ""
    if not utils.is_solution(ours):
        return [_set_aside(cell, _grade_id(ours))], ("graded cells appeared more than once, of which the first counts")
    if ours.cell_type == "code":
        twice = _names(ours.source) & _names(cell["source"])
        return [_own(cell | {"cell_type": "code"})], (
            "answers appeared more than once, and are all run in their order" if twice else ""
        )
    source, pictures = _shown(cell)
    ours.source += f"\n\n{source}"
    if pictures:
        ours.attachments = ours.get("attachments", {}) | pictures
    return [], "" if above == ours.id else "answers appeared more than once, and are put together"


def _names(source):
    """The names that a cell defines at the start of a line."""
    return {name for names in DEFINED.findall(source) for name in names if name}


def _graded(cell):
    return cell is not None and _grade_id(cell)


def _own(cell):
    if cell["cell_type"] == "code":
        # A copy of a demo cell is one, too.
        return v4.new_code_cell(cell["source"], metadata={"tags": ["demo"]} if cell["demo"] else {})
    source, pictures = _shown(cell)
    made = v4.new_markdown_cell(source)
    if pictures:
        made.attachments = pictures
    return made


def _set_aside(cell, name):
    """A cell with the text of a changed one: to be read, not run."""
    text = "\n".join(f"    {line}" for line in cell["source"].splitlines())
    return v4.new_markdown_cell(f"What was in {name}, and does not count:\n\n{_harmless(text)}")


def _shown(cell):
    """A text's Markdown and its pictures, without missing ones, on which nbconvert fails."""
    pictures = _pictures(cell["attachments"])

    def found(match):
        name = match[1]
        picture = pictures.get(name) or pictures.get(unquote(name))
        if not picture or "\\" in name:
            return f"!{NO_SPACE}"
        pictures[escape_url(name)] = picture  # nbconvert's key
        return "!"

    return PASTED.sub(found, _harmless(cell["source"])), pictures


def _harmless(source):
    """Markdown that the instructor's formgrader page shows but does not run."""
    return ACTIVE.sub(rf"\1{NO_SPACE}", source)


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


def _first_line(cell):
    return f"“{cell.source.strip().partition(chr(10))[0][:40]}”"


def _text(source):
    return "\n".join(line.rstrip() for line in source.strip().splitlines())
