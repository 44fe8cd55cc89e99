"""What an attendee's checks have found, hints that they took, and whether they share; theirs alone.

It lies in the runs folder, as `answers.json`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from ddl.records import files
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import runs_dir

CLASS = "DDL_CLASS"  # the folder in which attendees of a class share where they are


def digest(source: str) -> str:
    """Return a short digest of a cell's text."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:12]


def keep_check(lesson: str, passed: Mapping[str, bool], sources: Iterable[str], whole: bool = True) -> None:
    """Keep which tests passed, by grade id, and the code that was run; what was kept goes if this is the `whole`."""
    ran = {digest(source) for source in sources}

    def keep(content):
        known = content.setdefault("checked", {})
        before = {} if whole else known.get(lesson, {})
        known[lesson] = {
            "passed": {**before.get("passed", {}), **passed},
            "ran": sorted(ran.union(before.get("ran", ()))),
        }

    _change(keep)


def checked(lesson: str) -> tuple[dict[str, bool], set[str]]:
    """Return which tests of a lesson passed at its last check, and the digests of the code that was run before them."""
    found = _read().get("checked", {}).get(lesson, {})
    return found.get("passed", {}), set(found.get("ran", ()))


def take_hint(lesson: str, question: str, most: int) -> int:
    """Count one more hint of a question, up to `most`; return how many it has been then."""
    taken = min(hints_taken(lesson).get(question, 0) + 1, most)

    def count(content):
        content.setdefault("hints", {}).setdefault(lesson, {})[question] = taken

    _change(count)
    return taken


def hints_taken(lesson: str) -> dict[str, int]:
    """Return how many hints were taken of each question of a lesson."""
    return _read().get("hints", {}).get(lesson, {})


def keep_sharing(on: bool) -> None:
    """Keep whether this attendee shares where they are with their instructor."""
    _change(lambda content: content.update(shares=on))


def sharing() -> bool:
    """Whether this attendee has chosen to share where they are."""
    return _read().get("shares") is True


def _path() -> Path:
    return runs_dir() / "answers.json"


def _read() -> dict:
    try:
        return read_json(_path()) or {}
    except DamagedFile:
        return {}  # the next check writes it anew


def _change(act) -> None:
    with files.locked(_path().with_name(".answers.lock")):
        content = _read()
        act(content)
        write_json(_path(), content)
