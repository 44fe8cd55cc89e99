"""An attendee's private state: results of checks, hints taken, and whether they share progress.

It is stored in the runs folder as `answers.json`.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ddl.records import files
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import runs_dir

CLASS = "DDL_CLASS"  # the folder in which a class's attendees share their progress


def digest(source: str) -> str:
    """Return a short digest of an answer's text."""
    return hashlib.sha256(source.strip().encode()).hexdigest()[:12]


def keep_check(lesson: str, verdicts: Mapping[str, tuple[bool, str]], whole: bool = True) -> None:
    """Store test results and answers' digests by grade id, replacing older ones if these are complete."""

    def keep(content):
        known = content.setdefault("checked", {})
        known[lesson] = {**({} if whole else known.get(lesson, {})), **verdicts}

    _change(keep)


def checked(lesson: str) -> dict[str, tuple[bool, str]]:
    """Return the stored results of a lesson's tests."""
    found = _read().get("checked", {}).get(lesson, {})
    return {test: tuple(verdict) for test, verdict in found.items() if len(verdict) == 2}


def take_hint(lesson: str, question: str, most: int) -> int:
    """Count one more hint for a question, up to `most`; return the count."""
    taken = min(hints_taken(lesson).get(question, 0) + 1, most)

    def count(content):
        content.setdefault("hints", {}).setdefault(lesson, {})[question] = taken

    _change(count)
    return taken


def hints_taken(lesson: str) -> dict[str, int]:
    """Return the number of hints taken for each question of a lesson."""
    return _read().get("hints", {}).get(lesson, {})


def keep_sharing(on: bool) -> None:
    """Store whether this attendee shares their progress with the instructor."""
    _change(lambda content: content.update(shares=on))


def sharing() -> bool:
    """Return whether this attendee shares their progress."""
    return _read().get("shares") is True


def _path() -> Path:
    return runs_dir() / "answers.json"


def _read() -> dict:
    try:
        return read_json(_path()) or {}
    except DamagedFile:
        return {}  # the next check rewrites it


def _change(act) -> None:
    with files.locked(_path().with_name(".answers.lock")):
        content = _read()
        act(content)
        write_json(_path(), content)
