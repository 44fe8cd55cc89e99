"""Merge of an attendee's notebook with a new release of it."""

import copy
from difflib import SequenceMatcher

from nbformat.v4.nbbase import random_cell_id


def merged(mine, base, theirs):
    """Merge an attendee's work into the new release of a notebook; return it with notes for the attendee.

    Answers move to the new position of their `grade_id`. The attendee's own cells follow the same cell as before.
    Outputs stay with unchanged code. If both changed one of the lesson's cells, the attendee's version goes below the
    released one. `mine`, `base` and `theirs` are in nbformat 4: the attendee's, the release that it came from, and the
    new one.
    """
    mine, result, notes = _with_ids(mine, base), copy.deepcopy(theirs), []
    before = {_key(cell): cell for cell in base["cells"]}
    now = {_key(cell): cell for cell in result["cells"]}
    added, previous, seen, ids = {}, None, set(), {None, *(cell.get("id") for cell in result["cells"])}
    for cell in mine["cells"]:
        key = _key(cell)
        if key in now and key not in seen:
            seen.add(key)
            previous = key
            kept = _take(cell, before.get(key), now[key], notes)
        elif key in before and key not in seen and not _changed(cell, before[key]):
            continue  # the new release no longer has this cell
        else:
            kept = cell
            if key in before and key not in seen:
                notes.append(f"{_name(cell)} is not in the new release: yours is kept as your own cell")
        if kept is not None:
            kept = copy.deepcopy(kept)
            kept.get("metadata", {}).pop("nbgrader", None)  # it has no role in the release
            kept["id"] = random_cell_id() if kept.get("id") in ids else kept["id"]
            ids.add(kept["id"])
            added.setdefault(previous, []).append(kept)
    cells = added.get(None, [])
    for cell in result["cells"]:
        cells += [cell, *added.pop(_key(cell), ())]
    result["cells"] = cells
    return result, notes


def _with_ids(mine, base):
    """Restore the release's cell ids in an attendee's notebook if an editor dropped or replaced them."""
    mine = copy.deepcopy(mine)
    if {cell.get("id") for cell in mine["cells"]} & {cell.get("id") for cell in base["cells"]}:
        return mine
    cells = (
        [_role(cell).get("grade_id") or cell["source"].strip() for cell in notebook["cells"]]
        for notebook in (mine, base)
    )
    steps = SequenceMatcher(None, *cells, autojunk=False).get_opcodes()
    for tag, first, last, from_, to in steps:
        if tag == "equal" or (tag == "replace" and last - first == to - from_):  # changed, but in the same position
            for cell, before in zip(mine["cells"][first:last], base["cells"][from_:to], strict=True):
                cell["id"] = before["id"]
    return mine


def _take(cell, old, new, notes):
    """Merge an attendee's version of a cell into the new one; return the version if it does not fit."""
    role = _role(new)
    changed = old is None or _changed(cell, old)
    if role.get("solution") and changed:
        if old is not None and old["source"] != new["source"] and cell["source"] != new["source"]:
            notes.append(f"{_name(cell)} has changed: check your answer")
        new["source"] = cell["source"]
        if "attachments" in cell:
            new["attachments"] = cell["attachments"]
    elif changed and not role and cell["source"] != new["source"]:
        if old is None or old["source"] != new["source"]:
            notes.append(f"“{_name(cell)}” was changed by you and by the release: yours is below the new one")
            return cell
        new["source"] = cell["source"]
    if new["cell_type"] == "code" == cell["cell_type"] and new["source"] == cell["source"]:
        new["outputs"], new["execution_count"] = cell.get("outputs", []), cell.get("execution_count")
    return None


def _changed(cell, old):
    return cell["source"].strip() != old["source"].strip()


def _key(cell):
    return _role(cell).get("grade_id") or cell.get("id")


def _name(cell):
    return _role(cell).get("grade_id") or cell["source"].strip().partition("\n")[0][:40]


def _role(cell):
    return cell.get("metadata", {}).get("nbgrader") or {}
