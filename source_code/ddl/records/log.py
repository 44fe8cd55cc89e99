"""Logs of ranks: writing that survives a full disk, and incremental reading."""

import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ddl.records import files
from ddl.records.jsonfiles import FULL

CHUNK_BYTES = 1 << 20
TAIL_BYTES = 1 << 16
WIDEST = 4000  # characters shown of an unfinished line
FIRST_BYTES = 200_000  # shown of a long text
# Terminal control sequences: colors, cursor movements, window titles.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])|\0")
# What TensorFlow 2.15's build for GPUs prints three times at each import, as errors. They have no consequence.
NOISE = re.compile(
    r"[-\d: .]*E external/local_xla/xla/stream_executor/cuda/cuda_(dnn|fft|blas)\.cc:\d+\] Unable to register "
    r"cu(DNN|FFT|BLAS) factory: Attempting to register factory for plugin cu\w+ when one has already been registered"
)


class _Tolerant(io.FileIO):
    """A file that drops output while its disk is full, and notes later how much is missing."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._missing = 0  # bytes dropped since the last successful write

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            if self._missing:
                super().write(b"\n[the disk was full: %d bytes are missing here]\n" % self._missing)
                self._missing = 0
            while rest and (written := super().write(rest)):  # a disk that fills up accepts only a part
                rest = rest[written:]
        except OSError as error:
            if error.errno not in FULL:
                raise
            self._missing += len(rest)
        return size


def keep_writing() -> None:
    """Make this process write its output unbuffered, so that none is lost in a crash, and survive a full disk."""
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        old = getattr(sys, name)
        old.flush()
        stream = io.TextIOWrapper(_Tolerant(descriptor), write_through=True, encoding=old.encoding, errors=old.errors)
        stream.mode = "w"  # type: ignore[misc]  # as the interpreter does
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class LogTail:
    """A reader of a growing log; each call of `lines` continues where the last one ended.

    `current` is the last, unfinished line. As in a terminal, a line that a progress bar redraws with carriage returns
    or backspaces is one line. Each call reads at most the last `last_bytes`, by default everything; `skipped_bytes` is
    what the last call left out.
    """

    def __init__(self, path: Path, last_bytes: int | None = None) -> None:
        self._path = path
        self._last_bytes = last_bytes
        self._offset = 0
        self._rest = b""  # the visible part of the unfinished line
        self.current = ""
        self.skipped_bytes = 0

    def lines(self, before: int | None = None) -> Iterator[str]:
        """Yield the lines finished since the last call, up to the byte offset `before`."""
        try:
            file = files.open_file(self._path)
        except OSError:
            return
        with file:
            self.skipped_bytes = 0
            end = os.fstat(file.fileno()).st_size if before is None else before
            if self._last_bytes and end - self._offset > self._last_bytes:
                begin, self._rest = end - self._last_bytes, b""
                file.seek(begin)  # this is inside a line: skip its rest
                begin += len(file.readline(self._last_bytes))
                self.skipped_bytes, self._offset = begin - self._offset, begin
            file.seek(self._offset)
            data = file.read(max(0, end - self._offset))
            self._offset += len(data)
            *whole, rest = (self._rest + data).split(b"\n")
            self._rest = _last_drawn(rest)[-TAIL_BYTES:]  # a line may never end
            yield from (line for line in map(shown, whole) if not NOISE.fullmatch(line))
        self.current = shown(self._rest)[:WIDEST]

    def take_current(self) -> str:
        """Return the unfinished line as if it were finished."""
        text, self._rest, self.current = shown(self._rest)[:WIDEST], b"", ""
        return text


def shown(line: bytes) -> str:
    """Return what a terminal shows of a line."""
    text = ESCAPES.sub("", _last_drawn(line).decode("utf-8", "replace").rstrip("\r"))
    if "\b" in text:
        kept: list[str] = []
        for part in re.findall("\b|[^\b]+", text):
            kept[-1:] = kept[-1:] + list(part) if part != "\b" else []
        text = "".join(kept)
    return text.rstrip()


def _last_drawn(line: bytes) -> bytes:
    """Return the last version of a line that is redrawn with carriage returns."""
    text = line.rstrip(b"\r")
    return line[text.rfind(b"\r") + 1 :]


def section(path: Path, begin: int, end: int | None = None) -> str:
    """Return what a terminal shows of a log between two offsets. A long text has its beginning and its end only."""
    try:
        file = files.open_file(path)
    except OSError:
        return ""
    with file:
        end = os.fstat(file.fileno()).st_size if end is None else end
        file.seek(begin)
        data = file.read(min(end - begin, FIRST_BYTES))
        if left := max(0, end - file.tell() - WIDEST):
            data += f" …\n… {left / 1e6:,.1f} MB are only in {path}\n… ".encode()
        file.seek(max(file.tell(), end - WIDEST))
        data += file.read(end - file.tell())
    return "\n".join(line for line in map(shown, data.split(b"\n")) if not NOISE.fullmatch(line))


def last_lines(path: Path, count: int = 8, before: int | None = None) -> list[str]:
    """Return the last non-blank lines of a log, including an unfinished one, up to the byte offset `before`."""
    tail = LogTail(path, last_bytes=TAIL_BYTES)
    lines = list(tail.lines(before))
    return [line for line in (*lines, tail.current) if line.strip()][-count:]
