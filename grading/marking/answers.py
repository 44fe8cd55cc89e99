"""What of a handed-in notebook is the student's, put into the lesson as it was handed out."""

import base64
import binascii
import copy
import json
import re
from collections import defaultdict

from nbformat import v4
from nbgrader import utils

__all__ = ["Unreadable", "answered", "cells", "recognized"]

OWN_CELLS = 500  # more of them than anybody writes
# Of these, a browser shows a picture and runs nothing.
PICTURES = ("image/png", "image/jpeg", "image/gif")
# What a browser takes for a tag, for another way to write a character, for a link that runs code.
ACTIVE = re.compile(r"(<(?=[A-Za-z/!?])|&(?=#|\w+;)|(?:script|data)\\*(?=:))", re.IGNORECASE)
NO_SPACE = "\u200b"  # parts it and is not seen


class Unreadable(ValueError):
    """What was handed in is no notebook; the text says why."""


def cells(content: bytes) -> list[dict]:
    """The cells of a notebook file that anybody may have written, each of the expected types."""
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
    """Return the lesson with a student's answers in it, and what a person should look at.

    Our cells are as they were handed out. Answers are found by their `grade_id`, and the first of
    two counts. The student's own cells stay behind the cell of ours that they stood behind.

    Parameters
    ----------
    release : notebook
        As handed out.
    handed_in : list of dict
        From `cells`.
    """
    notebook, notes, odd = copy.deepcopy(release), [], defaultdict(list)
    by_grade_id = {_grade_id(cell): cell for cell in notebook.cells if _grade_id(cell)}
    by_id = {cell.id: cell for cell in notebook.cells}
    by_text = {_text(cell.source): cell for cell in notebook.cells}
    own: dict[str, list] = {}
    seen: set[str] = set()
    place = ""
    left = OWN_CELLS
    for cell in handed_in:
        ours = by_grade_id.get(cell["grade_id"]) or by_id.get(cell["id"])
        ours = ours or by_text.get(_text(cell["source"]))
        if ours is not None and ours.id not in seen:
            seen.add(ours.id)
            place = ours.id
            if _take(cell, ours):
                odd["changed"].append(_grade_id(ours))
        elif cell["source"].strip() and left:
            left -= 1
            name = _grade_id(ours) if ours is not None else None
            if name and _text(cell["source"]) != _text(ours.source):
                own.setdefault(place, []).append(_set_aside(cell, name))
            elif not name:
                own.setdefault(place, []).append(_own(cell))
            if name:
                odd["there more than once, of which the first counts"].append(name)
    if not left:
        notes.append(f"it has more than {OWN_CELLS} cells of its own: the others are left out")
    for cell in notebook.cells:
        name = _grade_id(cell)
        if name and cell.id not in seen and (utils.is_grade(cell) or utils.is_solution(cell)):
            odd["deleted"].append(name)
    notebook.cells = [
        *own.get("", []),
        *(each for cell in notebook.cells for each in (cell, *own.get(cell.id, []))),
    ]
    for number, cell in enumerate((c for c in notebook.cells if c.id not in by_id), start=1):
        cell.id = f"own-{number}"
    for what, names in odd.items():
        notes.append(f"graded cells were {what}: {', '.join(dict.fromkeys(names))}")
    return notebook, notes


def _cell(found):
    """The parts of a cell that are looked at; None for what is none."""
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
    return {
        "cell_type": found["cell_type"],
        # Half a surrogate pair is valid JSON and can be written to no file.
        "source": source.encode("utf-8", "replace").decode(),
        "grade_id": grade_id if isinstance(grade_id, str) else None,
        "id": found["id"] if isinstance(found.get("id"), str) else None,
        "attachments": found.get("attachments"),
    }


def _take(cell, ours):
    """Put what a student wrote into a cell of ours where it is for that.

    Return whether it is a test cell that was changed.
    """
    changed = _text(cell["source"]) != _text(ours.source)
    if utils.is_solution(ours):
        if not changed:
            return False
        ours.source = cell["source"]
        if ours.cell_type == "markdown":
            ours.source = _harmless(ours.source)
            if pictures := _pictures(cell["attachments"]):
                ours.attachments = pictures
        return False
    return changed and utils.is_grade(ours)


def _own(cell):
    if cell["cell_type"] == "code":
        return v4.new_code_cell(cell["source"])
    made = v4.new_markdown_cell(_harmless(cell["source"]))
    if pictures := _pictures(cell["attachments"]):
        made.attachments = pictures
    return made


def _set_aside(cell, name):
    """A second answer: to be read, not run."""
    text = "\n".join(f"    {line}" for line in cell["source"].splitlines())
    return v4.new_markdown_cell(f"A second {name}, which was not looked at:\n\n{_harmless(text)}")


def _harmless(source):
    """Markdown that the formgrader's page, opened by the instructor, shows and does not run."""
    return ACTIVE.sub(rf"\1{NO_SPACE}", source)


def _pictures(attachments):
    """Of what was pasted into a Markdown cell, the pictures."""
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


def _text(source):
    return "\n".join(line.rstrip() for line in source.strip().splitlines())
