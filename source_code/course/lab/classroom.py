"""Shared progress of attendees, and the instructor's table.

Sharing is optional. ``DDL_CLASS`` names the class's folder, in which each has a ``NAME.json``::

    {"name": "ann", "lesson": "1.Gradient-Basics", "time": 1700000000.0, "passes": {"1.Gradient-Basics": {"q01": true}}}

A file counts if it is a small, regular file with such content; only known lessons and questions are read.
"""

import contextlib
import json
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from course.lab import attendee, notebooks
from course.lab.handin import student
from course.lab.progress import LESSON, aligned, progress, questions_of
from ddl.errors import InputError
from ddl.records.jsonfiles import write_json
from ddl.text import plural

MOST_BYTES = 65536
MOST_FILES = 1000
SHOWN = 10  # maximal number of questions and skipped files shown
HEADS = ("name", "lesson", "pass", "do not pass", "last news")
QUESTION_HEADS = ("lesson", "question", "does not pass for", "of those who tried")


@dataclass(frozen=True)
class Seat:
    """One attendee's shared progress."""

    name: str
    lesson: str
    time: float  # s since the epoch
    passes: dict[str, dict[str, bool]]  # {lesson: {question: whether it passes its tests}}


@dataclass(frozen=True)
class Classroom:
    """A table of sharing attendees, and the questions that most fail."""

    seats: tuple[Seat, ...]
    left_out: tuple[str, ...]  # sentences about files
    now: float

    def rows(self):
        for seat in sorted(self.seats, key=lambda seat: seat.name):
            here = seat.passes.get(seat.lesson, {})
            red = [question for question, passed in here.items() if not passed]
            ago = f"{max(0, self.now - seat.time) / 60:.0f} min ago"
            yield seat.name, seat.lesson or "–", str(sum(here.values())), ", ".join(red) or "–", ago

    def questions(self):
        """The failing questions, most frequent first."""
        tried, red = Counter(), Counter()
        for seat in self.seats:
            for lesson, passes in seat.passes.items():
                tried.update((lesson, question) for question in passes)
                red.update((lesson, question) for question, passed in passes.items() if not passed)
        for (lesson, question), count in sorted(red.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]:
            yield lesson, question, str(count), str(tried[lesson, question])

    def __repr__(self):
        tables = [(HEADS, *self.rows()), (QUESTION_HEADS, *self.questions())]
        return "\n\n".join([*(aligned(table) for table in tables if len(table) > 1), *self._notes()])

    def _repr_html_(self):
        from ddl.display.html import html_table, prose

        notes = "".join(f'<div class="ddl-under">{prose(note)}</div>' for note in self._notes())
        red = list(self.questions())
        return html_table(HEADS, self.rows()) + (html_table(QUESTION_HEADS, red) if red else "") + notes

    def _notes(self):
        yield f"{plural(len(self.seats), 'attendee')} of this class share where they are (`ddl share on`)."
        yield from self.left_out[:SHOWN]
        if len(self.left_out) > SHOWN:
            yield f"{len(self.left_out) - SHOWN:,} more files are left out."


def share(on: bool = True) -> str:
    """Share your progress with your instructor, or stop; return a description of what is shared."""
    folder = os.environ.get(attendee.CLASS)
    if not folder:
        raise InputError(f"there is no class to share with: {attendee.CLASS} names no folder")
    path = Path(folder, f"{student()}.json")
    attendee.keep_sharing(on)
    if not on:
        path.unlink(missing_ok=True)
        return "Your progress is no longer shared."
    _write(path, "")
    return (
        f"Your instructor sees from now on, renewed by each check: your name ({student()}), the lesson that you "
        "checked, whether each question passes its tests, and when. Never code, answers or outputs. "
        "`share(False)` or `ddl share off` ends this."
    )


def renew(lesson: str) -> None:
    """Update the shared progress after a check, if the attendee shares it."""
    folder = os.environ.get(attendee.CLASS)
    if folder and attendee.sharing():
        with contextlib.suppress(OSError, InputError):  # the check matters more
            _write(Path(folder, f"{student()}.json"), lesson)


def _write(path, lesson):
    passes = {}
    for each in progress().lessons:
        marks = {q.name: q.state == "done" for q in each.tested if q.state in ("done", "failed")}
        passes |= {each.path.stem: marks} if marks else {}
    write_json(path, {"name": path.stem, "lesson": lesson, "time": time.time(), "passes": passes})
    path.chmod(0o640)  # for the folder's group: see `make hub`


def classroom(folder: str | Path | None = None) -> Classroom:
    """Return a class's progress, as shared in a folder (default: ``DDL_CLASS``)."""
    folder = folder or os.environ.get(attendee.CLASS)
    if not folder or not Path(folder).is_dir():
        raise InputError(f"there is no class's folder {folder or ''}: name it, or let {attendee.CLASS} name it".strip())
    names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    known = {
        path.stem: {question.name for question in questions_of(path)}
        for path in notebooks.lessons().values()
        if LESSON.fullmatch(path.name)
    }
    seats, left_out = [], []
    for name in names[:MOST_FILES]:
        try:
            seats.append(_seat(Path(folder, name), known))
        except _Bad as error:
            left_out.append(f"{_plain(name)} is skipped: {error}.")
    if len(names) > MOST_FILES:
        left_out.append(f"{len(names) - MOST_FILES:,} files beyond the first {MOST_FILES:,} are skipped.")
    return Classroom(tuple(seats), tuple(left_out), time.time())


class _Bad(Exception):
    """Reason why a file does not count."""


def _seat(path, known):
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_BYTES:  # reading a pipe would block
        raise _Bad(f"it is not a file of at most {MOST_BYTES // 1024} KiB")
    try:
        content = json.loads(path.read_text())
        name, lesson, written, passes = (content[key] for key in ("name", "lesson", "time", "passes"))
        right = name == path.stem and 0 <= float(written) < 1e11
        taken = {
            known_lesson: {q: mark for q, mark in passes[known_lesson].items() if q in questions and type(mark) is bool}
            for known_lesson, questions in known.items()
            if known_lesson in passes
        }
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        right = False
    if not right:
        raise _Bad("it is not a progress file")
    return Seat(name, lesson if lesson in list(known) else "", float(written), taken)


def _plain(text):
    return "".join(character if character.isprintable() else "�" for character in text)
