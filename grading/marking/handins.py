"""The files of untrusted folders and archives.

Nothing is unpacked: an archive's files are read into memory, up to a limit.
"""

import io
import os
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ddl.errors import CourseError

FILE_BYTES = 20 * 2**20  # ten times a notebook with many pictures
FILES = 10_000
NAME_BYTES = 200  # of a part of a path; longer ones are cut


class Refused(CourseError):
    """A file or archive is not read; the text says why."""


@dataclass(frozen=True)
class Piece:
    """One file of a hand-in."""

    parts: tuple[str, ...]  # its path, each part a safe file name
    content: Callable[[], bytes]  # returns its bytes, or raises Refused
    saved_at: float = 0.0  # seconds since 1970, as the folder or archive has it; 0 if unknown

    @property
    def name(self) -> str:
        return "/".join(self.parts)

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.parts[-1])[1].lower()

    @property
    def clutter(self) -> bool:
        """Whether an operating system or Jupyter made it."""
        return any(part.startswith((".", "__MACOSX")) for part in self.parts) or (
            self.parts[-1] in ("desktop.ini", "Thumbs.db")
        )


def in_folder(folder: Path) -> Iterator[Piece]:
    """The files below a folder; links are named, never followed."""
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders.sort()
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in sorted([*files, *links]):
            path = Path(parent, name)
            yield Piece(path.relative_to(folder).parts, lambda path=path: _file(path), path.lstat().st_mtime)


def in_archive(content: bytes | Path) -> Iterator[Piece]:
    """The files in a zip archive; raises Refused if the archive cannot be read.

    A file whose path leads out of the archive is named by the path's last part, and refused.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content) if isinstance(content, bytes) else content)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise Refused(f"is not a zip archive that can be read ({error})") from None
    entries = archive.infolist()
    if len(entries) > FILES:
        raise Refused(f"has {len(entries):,} files; up to {FILES:,} are looked at")
    for entry in entries:
        name = entry.filename.replace("\\", "/")
        if name.endswith("/"):
            continue
        parts = tuple(_name(part) for part in name.split("/") if part not in ("", "."))
        leads_out = name.startswith("/") or ".." in parts or (parts and ":" in parts[0])
        if not parts:
            continue
        if leads_out:
            yield Piece((parts[-1].replace("..", "_"),), _leads_out)
        else:
            yield Piece(parts, lambda entry=entry: _entry(archive, entry), _saved_at(entry))


def _leads_out():
    raise Refused("leads out of its archive")


def _saved_at(entry):
    try:
        return time.mktime((*entry.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0


def _name(part):
    """Turn a part of an archive's path into a valid file name with the same suffix."""
    part = part.replace("\0", "?").encode("utf-8", "replace").decode()
    if len(part.encode()) <= NAME_BYTES:
        return part
    stem, suffix = os.path.splitext(part)
    suffix = suffix if len(suffix) <= 10 else ""
    return stem.encode()[: NAME_BYTES - len(suffix.encode())].decode("utf-8", "ignore") + suffix


def _file(path):
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise Refused("is a symbolic link, which is not followed")
    if not stat.S_ISREG(found.st_mode):
        raise Refused("is not a regular file")
    _check_size(found.st_size)
    # It may have become a link since: that is not followed either.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return file.read(FILE_BYTES)


def _entry(archive, entry):
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Refused("is a symbolic link, which is not followed")
    _check_size(entry.file_size)
    try:
        with archive.open(entry) as file:
            content = file.read(FILE_BYTES + 1)  # the archive may give a wrong size
    except RuntimeError:
        raise Refused("is protected by a password") from None
    except Exception as error:  # zipfile has a different one for each way to be broken
        raise Refused(f"cannot be read from its archive ({error})") from None
    _check_size(len(content))
    return content


def _check_size(size):
    if size > FILE_BYTES:
        raise Refused(f"has {size / 2**20:,.0f} MiB; up to {FILE_BYTES / 2**20:.0f} are looked at")
