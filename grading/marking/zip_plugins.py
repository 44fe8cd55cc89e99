"""nbgrader's plugins for its zip collector, with the names of a class and limits on hand-ins.

These replace nbgrader's extractor, which follows links and unpacks archives of any size, and its collector, whose
regular expression does not know the class. nbgrader still groups the files by student and copies them.
"""

import errno
import io
import math
import os
import re
import stat
import time
import unicodedata
import zipfile
from collections import defaultdict
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath

from nbgrader.plugins import ExtractorPlugin, FileNameCollectorPlugin
from traitlets import Dict, Unicode

from ddl.errors import CourseError
from marking.students import Student

FILE_BYTES = 20 * 2**20  # ten times a notebook with many pictures
ARCHIVE_BYTES = 5 * FILE_BYTES  # all files of a student's archive
ARCHIVE_FILES = 10_000
REQUEST = "regrade.txt"  # in a hand-in: what a student asks to be looked at again
STAMP = "timestamp.txt"  # nbgrader's, with the time of a hand-in
CLUTTER = ("__MACOSX", ".ipynb_checkpoints", "desktop.ini", "Thumbs.db")
# The file names of hand-ins; WHO is an id or a name, see `names_of`. Moodle's downloads have a number and
# "assignsubmission" after it, and take feedback back under that name; Canvas's have numbers only.
# Blackboard's have the assignment before it, and Brightspace's two numbers.
PATTERN = (
    r"(?P<came_as>(?:\d+-\d+ - |[^/]*_(?=WHO_attempt_))?WHO(?:_\d+_assignsubmission_[a-z]+)?)"
    r"(?: - |[_/]|\.(?:ipynb|py|zip|txt)(?![\w@-])|$)"
)


class Refused(CourseError):
    """A file or archive is not read; the text says why."""


class Extractor(ExtractorPlugin):
    """Copies the files of hand-ins, and unpacks zip archives among them; `refused` says why files were left out."""

    sources = Dict(help="the folder or zip archive of each student, or of the class, whose key is empty")

    def extract(self, archive_path, extracted_path):
        self.refused, self._out = {}, Path(extracted_path)
        for name, source in self.sources.items():
            self._add(name, _folder(source) if source.is_dir() else _archive(source, math.inf))
        for path in sorted(path for path in self._out.rglob("*") if path.suffix.lower() == ".zip" and path.is_file()):
            name, packed = str(path.relative_to(self._out)), io.BytesIO(path.read_bytes())
            path.unlink()  # a folder of that name takes its place
            try:
                self._add(name, _archive(packed, ARCHIVE_BYTES))
            except Refused as error:
                self.refused[name] = str(error)

    def _add(self, folder, entries):
        """Write files, each given by name, size, mode, time and a function that reads it."""
        for entry, size, mode, saved_at, read in entries:
            parts = [part for part in PurePosixPath(folder, entry.lstrip("/")).parts if part != ".."]
            name, path = "/".join(parts), self._out.joinpath(*parts)
            hidden = any(part.startswith(".") for part in parts)
            if any(part in CLUTTER or part.startswith("._") for part in parts):
                continue  # an operating system or Jupyter made it
            if hidden and not name.endswith(".ipynb"):
                continue
            try:
                if hidden:
                    raise Refused("is hidden, as its name begins with a dot, and does not count")
                if mode and not stat.S_ISREG(mode):
                    raise Refused("is a link, which is not followed, or another special file")
                if size > FILE_BYTES:
                    raise Refused(f"has {size / 2**20:,.0f} MiB; the limit is {FILE_BYTES / 2**20:.0f}")
                if path.exists():
                    self.refused[name] = "is there more than once; the last one counts"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(read())
                os.utime(path, (saved_at, saved_at))
            except Refused as error:
                self.refused[name] = str(error)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise
                self.refused[name] = f"cannot be read ({error.strerror})"


class Collector(FileNameCollectorPlugin):
    """Finds each file's student by one pattern and the names of a class; `strays` has the reason for other files."""

    named_regexp = Unicode(PATTERN, help="how a file's path begins; WHO is any id or name").tag(config=True)

    def prepare(self, out: Path, people: list[Student], keep_stamps: bool, others: list[str]) -> None:
        """Index the class's names; the files are those below `out`, and `others`, which were refused.

        With `keep_stamps`, nbgrader's own timestamp files count.
        """
        self._out, self._keep_stamps, self.strays, self.came_as = out, keep_stamps, {}, {}
        self._people = defaultdict(list)
        for person in people:
            for name in names_of(person):
                self._people[name].append(person.id)
        who = "|".join(map(re.escape, sorted(self._people, key=len, reverse=True)))
        # The last one is the name; the ones before it look ahead.
        ahead, _, after = self.named_regexp.rpartition("WHO")
        pattern = f"{ahead.replace('WHO', f'(?:{who})')}(?P<who>{who}){after}"
        self._regexp = re.compile(pattern, re.IGNORECASE)
        names = [str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()] + others
        firsts = {name.partition("/")[0] for name in names}
        # The download's own folder around everything.
        self._around = f"{firsts.pop()}/" if len(firsts) == 1 and all("/" in name for name in names) else ""
        if self._regexp.match(_plain(self._around)):
            self._around = ""

    def collect(self, submitted_file):
        """Return nbgrader's description of a file, or None to leave the file in place."""
        path = Path(submitted_file)
        name = str(path.relative_to(self._out)).removeprefix(self._around)
        student = self.owner(name)
        if student is None or (path.name == STAMP and not self._keep_stamps):
            return None
        if path.name == STAMP:
            return {"student_id": student, "file_id": STAMP}
        asks = path.name.lower() == REQUEST  # a request does not make the answers late
        saved = None if asks else datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return {"student_id": student, "file_id": name, "timestamp": saved}

    def owner(self, name: str) -> str | None:
        """Return the id of the student whose file this is, or None and note it as a stray."""
        name = name.removeprefix(self._around)
        match = self._regexp.match(_plain(name))
        owners = self._people.get(match["who"].casefold(), []) if match else []
        if len(owners) == 1:
            if "_assignsubmission_" in match.groupdict().get("came_as", ""):
                self.came_as[owners[0]] = f"{name[: match.end('came_as')]}_"
            return owners[0]
        if owners:
            reason = f"the name matches {' and '.join(owners)}: put it into a folder named by the id"
        else:
            # The beginnings of names, as a whole path is far from any.
            starts = [re.split(r"[_/]|\.\w+$", _plain(part))[0].casefold() for part in (self._around, name)]
            close = [known for start in starts for known in get_close_matches(start, self._people)]
            near = {id: None for known in close for id in self._people[known]}
            reason = "no student has that id or name" + (f": is it {' or '.join(near)}?" if near else "")
        self.strays[self._around + name] = reason
        return None


def names_of(person: Student) -> set[str]:
    """What hand-ins call a student: the id, the full name in either order, or both names in one word as in Canvas."""
    first, last, names = person.first_name, person.last_name, [person.id]
    if first and last:
        names += [f"{first} {last}", f"{last} {first}", f"{last}, {first}", re.sub(r"\W|_", "", last + first)]
    return {_plain(name).casefold() for name in names}


def _plain(name):
    """Return a name with one code for each accented letter."""
    return unicodedata.normalize("NFC", name)


def _folder(folder):
    for path in sorted(folder.rglob("*")):  # which does not enter links
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode):
            yield str(path.relative_to(folder)), found.st_size, found.st_mode, found.st_mtime, path.read_bytes


def _archive(file, limit_bytes):
    try:
        with zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            if len(entries) > ARCHIVE_FILES or sum(entry.file_size for entry in entries) > limit_bytes:
                raise Refused(f"has more than {ARCHIVE_FILES:,} files or {ARCHIVE_BYTES / 2**20:.0f} MiB in it")
            for entry in entries:
                mode = stat.S_IFMT(entry.external_attr >> 16)  # none if Windows packed it
                yield _name(entry), entry.file_size, mode, _saved_at(entry), partial(_read, archive, entry)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise Refused(f"is not a zip archive that can be read ({error})") from None


def _name(entry):
    """Return an entry's name, which many programs write in UTF-8 without the flag that says so."""
    if not entry.flag_bits & 0x800:
        try:
            return entry.filename.encode("cp437").decode()
        except UnicodeError:
            pass
    return entry.filename


def _read(archive, entry):
    """Return a file of an archive; zipfile reads no more than the size that the entry gives."""
    try:
        return archive.read(entry)
    except Exception as error:  # zipfile has a different one for each way to be broken, or for a password
        raise Refused(f"cannot be read from its archive ({error})") from None


def _saved_at(entry):
    try:
        return time.mktime((*entry.date_time, 0, 0, -1))
    except (ValueError, OverflowError):
        return 0.0
