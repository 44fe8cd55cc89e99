"""JSON files, and JSON-lines files that grow while they are read."""

import errno
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.records import files

NUMBER = (int, float)
# Keys that an object needs, with the types of their values. A key with a question mark may be missing or null.
Schema = Mapping[str, type | tuple[type, ...]]
FULL = (errno.ENOSPC, errno.EDQUOT)  # a full disk or quota


class DamagedFile(CourseError, ValueError):
    """A file that is empty, truncated or overwritten."""


def is_full(path: Path) -> bool:
    """Return whether the disk that holds `path` is too full for another record."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < 4096 or bool(disk.f_files and not disk.f_favail)


def _finite(value: Any) -> Any:
    """Convert a value to strict JSON: NaN and infinities to None, NumPy types to Python types."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    elif hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: str | Path, mapping: Mapping) -> None:
    """Write `mapping` to `path` atomically."""
    files.write(path, json.dumps(_finite(mapping), indent=1, allow_nan=False) + "\n")


def read_json(path: str | Path, needs: Schema | None = None) -> dict | None:
    """Return the object in `path`, or None if the file does not exist.

    Raises DamagedFile if the object does not fit `needs` or the file cannot be read.
    """
    try:
        value = json.loads(files.read(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise DamagedFile(f"{path} is damaged: {error}") from None
    if problem := _misfit(value, needs or {}):
        raise DamagedFile(f"{path} is damaged: {problem}")
    return value


def is_number(value: object) -> bool:
    """Return whether a value from a file is a number."""
    return isinstance(value, NUMBER) and not isinstance(value, bool)


def _misfit(value: object, needs: Schema) -> str:
    """Say why a value does not fit a schema; empty if it does."""
    if not isinstance(value, dict):
        return "it must be an object"
    for key, types in needs.items():
        name = key.rstrip("?")
        found = value.get(name)
        if found is None and name != key:
            continue
        if not isinstance(found, types) or (types is not bool and isinstance(found, bool)):
            kinds = " or ".join(kind.__name__ for kind in (types if isinstance(types, tuple) else (types,)))
            return f"{name} must be of type {kinds}, got {found!r}"
    return ""


def append_json_line(path: str | Path, mapping: Mapping) -> None:
    """Append one line in a single write, so that lines of several processes never mix.

    If only part of the line fits on the disk, it is removed before the error is raised.
    """
    line = (json.dumps(_finite(mapping), allow_nan=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        end = os.fstat(descriptor).st_size
        if os.write(descriptor, line) < len(line):
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


class JsonLines:
    """A reader of a growing JSON-lines file; each `look` continues where the last one ended.

    A last line that is still being written (`unfinished`) is left for the next look. Lines that are damaged or don't
    fit `needs` are skipped and counted in `damaged`.
    """

    def __init__(self, path: str | Path, needs: Schema | None = None) -> None:
        self.path = Path(path)
        self._needs = needs or {}
        self._start_over()

    def _start_over(self) -> None:
        self.read: list[dict] = []
        self.damaged = 0
        self.unfinished = False
        self._file: int | None = None
        self._offset = 0

    def look(self) -> list[dict]:
        """Return all objects read so far, always in the same list."""
        try:
            with files.open_file(self.path) as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._file or about.st_size < self._offset:
                    self._start_over()  # the file was replaced or truncated
                self._file = about.st_ino
                file.seek(self._offset)
                new = file.read(about.st_size - self._offset)
        except FileNotFoundError:
            self._start_over()
            return self.read
        except OSError as error:
            raise DamagedFile(f"{self.path} cannot be read: {error.strerror}") from None
        complete = new[: new.rfind(b"\n") + 1]
        self._offset += len(complete)
        self.unfinished = len(complete) < len(new)
        for line in complete.split(b"\n"):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except ValueError:
                value = None
            if _misfit(value, self._needs):
                self.damaged += 1
            else:
                self.read.append(value)
        return self.read


def read_json_lines(path: str | Path, needs: Schema | None = None) -> list[dict]:
    """Return the complete, undamaged lines of `path` as objects; see `JsonLines`."""
    return JsonLines(path, needs).look()
