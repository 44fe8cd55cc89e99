"""A rank's log: written so that a full disk ends no training, followed without rereading.

Ranks import this before their script: the standard library only.
"""

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddl.records.files import opened
from ddl.records.jsonfiles import FULL

CHUNK_BYTES = 1 << 20
TAIL_BYTES = 1 << 16  # more than any screen shows
WIDEST = 4000  # characters kept of an unfinished line
# Colours and other movements of a terminal's cursor, and its title; "erase to the end of the line" is
# what a redrawn line needs.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
ERASE = re.compile(r"\x1b\[0?K")
MOVES = re.compile(rb"[\r\b\0\x1b]")  # bytes that a terminal does not just print


class _Tolerant(io.FileIO):
    """A descriptor whose disk may be full: what does not fit is left out, and the log says where."""

    def __init__(self, descriptor: int, lost: Path | None) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._lost = lost
        self._missing = 0  # bytes since the last that could be written

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            if self._missing:
                super().write(b"\n[the disk was full: %d bytes are missing here]\n" % self._missing)
                self._missing = 0
            while rest and (written := super().write(rest)):  # a disk that fills up takes a part
                rest = rest[written:]
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._missing += len(rest)
            if self._lost:
                with contextlib.suppress(OSError):
                    self._lost.touch()  # an empty file finds room
        return size


def keep_writing(lost: Path | None = None) -> None:
    """Write this process's output at once, even what it prints just before a crash, and survive a full disk.

    The file `lost` is made when output found no room.
    """
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        old.flush()
        stream = io.TextIOWrapper(
            _Tolerant(descriptor, lost), write_through=True, encoding=old.encoding, errors=old.errors
        )
        stream.mode = "w"  # type: ignore[misc]  # a plain attribute here, as the interpreter sets it
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class LogTail:
    """A growing log, read from where the last look ended.

    `current` is the last line, which is still unfinished. A line that a progress bar redraws (with a carriage return or
    backspaces) is one line, as in a terminal. Each look reads at most `last_bytes` and skips what comes before; by
    default it reads everything.
    """

    def __init__(self, path: Path, last_bytes: int | None = None) -> None:
        self._path = path
        self._last_bytes = last_bytes
        self._offset = 0
        self._line = _Line()
        self.current = ""

    def lines(self, before: int | None = None) -> Iterator[str]:
        """Yield the lines finished since the last look, up to the offset `before` in bytes."""
        try:
            file = opened(self._path)
        except OSError:
            return
        with file:
            end = os.fstat(file.fileno()).st_size if before is None else before
            if self._last_bytes and end - self._offset > self._last_bytes:
                self._offset, self._line = end - self._last_bytes, _Line()
                file.seek(self._offset)  # skip the rest of a line
                self._offset += len(file.readline(self._last_bytes))
            file.seek(self._offset)
            while data := file.read(CHUNK_BYTES if before is None else max(0, min(CHUNK_BYTES, before - self._offset))):
                self._offset += len(data)
                *whole, rest = data.split(b"\n")
                for part in whole:
                    yield self._line.draw(part).end()
                self._line.draw(rest)
        self.current = self._line.text()

    def take_current(self) -> str:
        """Return the unfinished line as if it were finished."""
        text, self.current = self._line.end(), ""
        return text


class _Line:
    """One line of a terminal, with its cursor."""

    def __init__(self) -> None:
        self._bytes = b""  # not drawn yet
        self._text: list[str] = []
        self._cursor = 0

    def draw(self, data: bytes) -> "_Line":
        self._bytes += data
        if len(self._bytes) > CHUNK_BYTES:  # a line without end, or a bar that is redrawn for ever
            self.text()
        return self

    def text(self) -> str:
        """The line so far, without half a character or escape at its end."""
        cut = _incomplete(self._bytes)
        self._draw(len(self._bytes) - cut)
        return "".join(self._text).rstrip()

    def end(self) -> str:
        """Return the line and begin the next."""
        if not self._text and not MOVES.search(self._bytes):  # nearly always
            text, self._bytes = self._bytes.decode(errors="replace").rstrip(), b""
            return text
        self._draw(len(self._bytes))
        text = "".join(self._text).rstrip()
        self._text, self._cursor = [], 0
        return text

    def _draw(self, count: int) -> None:
        data, self._bytes = self._bytes[:count], self._bytes[count:]
        text = ESCAPES.sub("", ERASE.sub("\0", data.decode(errors="replace")))
        for part in re.split("([\r\b\0])", text):
            if part == "\r":
                self._cursor = 0
            elif part == "\b":
                self._cursor = max(0, self._cursor - 1)
            elif part == "\0":
                del self._text[self._cursor :]
            else:
                part = part[: WIDEST - self._cursor]
                self._text[self._cursor : self._cursor + len(part)] = part
                self._cursor += len(part)


def _incomplete(data: bytes) -> int:
    """The number of bytes at the end that belong to an incomplete character or escape."""
    if at := re.search(rb"\x1b(\[[0-?]*[ -/]*)?$", data[-32:]):
        return len(data[-32:]) - at.start()
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            return back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else 0
        if byte < 0x80:
            return 0
    return 0


def last_lines(path: Path, count: int = 8, before: int | None = None) -> list[str]:
    """Return the last non-blank lines of a log, an unfinished one included, up to the offset `before` in bytes."""
    tail = LogTail(path, last_bytes=TAIL_BYTES)
    lines = list(tail.lines(before))
    return [line for line in (*lines, tail.current) if line.strip()][-count:]
