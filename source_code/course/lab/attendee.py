"""What an attendee's checks have found, hints that they took, and whether they share; theirs alone.

It lies in the runs folder, as `answers.json`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ddl.records import files
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import runs_dir

CLASS = "DDL_CLASS"  # the folder in which attendees of a class share where they are


def digest(source: str) -> str:
    """Return a short digest of an answer's text."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:12]


def keep_check(lesson: str, verdicts: Mapping[str, tuple[bool, str]], whole: bool = True) -> None:
    """Keep whether tests passed, and the digest of the answer, by grade id; what was kept goes if these are all."""

    def keep(content):
        known = content.setdefault("checked", {})
        known[lesson] = {**({} if whole else known.get(lesson, {})), **verdicts}

    _change(keep)


def checked(lesson: str) -> dict[str, tuple[bool, str]]:
    """Return what was kept of a lesson's tests."""
    found = _read().get("checked", {}).get(lesson, {})
    return {test: tuple(verdict) for test, verdict in found.items() if len(verdict) == 2}


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
