"""A rank's log: written so that a full disk ends no training, followed without rereading.

Ranks import this before their script: the standard library only.
"""

import codecs
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
WIDEST = 4000  # characters of an unfinished line that are shown
# Colours and other movements of a terminal's cursor, and its title.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])|\0")
HALF_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*)?$")


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
        self._rest = b""  # of the unfinished line, what shows of it
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
                self._offset, self._rest = end - self._last_bytes, b""
                file.seek(self._offset)  # skip the rest of a line
                self._offset += len(file.readline(self._last_bytes))
            file.seek(self._offset)
            while data := file.read(CHUNK_BYTES if before is None else max(0, min(CHUNK_BYTES, before - self._offset))):
                self._offset += len(data)
                *whole, rest = data.split(b"\n")
                for part in whole:
                    line, self._rest = self._rest + part, b""
                    yield shown(line)
                self._rest = _last_drawn(self._rest + rest)[-TAIL_BYTES:]  # a line may have no end
        self.current = shown(self._rest, whole=False)[:WIDEST]

    def take_current(self) -> str:
        """Return the unfinished line as if it were finished."""
        text, self._rest, self.current = shown(self._rest)[:WIDEST], b"", ""
        return text


def shown(line: bytes, whole: bool = True) -> str:
    """Return what a terminal shows of a line; of one that is not `whole`, without half a character or escape."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(_last_drawn(line), whole).rstrip("\r")
    text = ESCAPES.sub("", text if whole else HALF_ESCAPE.sub("", text))
    if "\b" in text:
        kept: list[str] = []
        for part in re.findall("\b|[^\b]+", text):
            kept[-1:] = kept[-1:] + list(part) if part != "\b" else []
        text = "".join(kept)
    return text.rstrip()


def _last_drawn(line: bytes) -> bytes:
    """Return a line from its last redrawing on, and the carriage returns at its end."""
    text = line.rstrip(b"\r")
    return line[text.rfind(b"\r") + 1 :]


def last_lines(path: Path, count: int = 8, before: int | None = None) -> list[str]:
    """Return the last non-blank lines of a log, an unfinished one included, up to the offset `before` in bytes."""
    tail = LogTail(path, last_bytes=TAIL_BYTES)
    lines = list(tail.lines(before))
    return [line for line in (*lines, tail.current) if line.strip()][-count:]
