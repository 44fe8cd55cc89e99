"""Collect a class's hand-ins from a folder, a zip archive or nbgrader's exchange."""

import errno
import re
import shutil
import time
import unicodedata
from collections import defaultdict
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import nbformat

from marking import answers
from marking.course import Course, MarkingError, plain, write
from marking.handins import FILE_BYTES, Piece, Refused, in_archive, in_folder
from marking.students import Student, enrol, students

REQUEST = "regrade.txt"  # in a hand-in: what somebody asks to be looked at again
STAMP = "timestamp.txt"  # nbgrader's, with the time of a hand-in
KEPT_BYTES = 5 * FILE_BYTES  # of one hand-in, with all its files
KEPT_FILES = 1000
NESTED = 3  # levels of archives in archives
# Errors of a file's name, not of the disk.
NAMES = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EILSEQ, errno.EINVAL, errno.EEXIST, errno.ENOTEMPTY}
# Moodle's names of downloads: “Full name_12345_assignsubmission_file_…”.
PLATFORM = re.compile(r"(?P<whole>(?P<person>[^_]+)_\d+_assignsubmission_[a-z]+)(_|$)")


@dataclass(frozen=True)
class Stray:
    """A file that matches no student, and why."""

    name: str
    reason: str


def collect(course: Course, lesson: str, where: Path, from_exchange: bool = False) -> tuple[list[str], list[Stray]]:
    """Collect all hand-ins in a folder or zip archive; return the ids of their students, and the strays.

    Originals are kept byte for byte under collected/; under submitted/ is the released lesson with the student's
    answers. An earlier hand-in of the same student is replaced; those of students not in `where` stay.
    """
    release = nbformat.read(course.notebook("release", lesson), as_version=4)
    found, strays = by_student(course, where)
    for student, pieces in sorted(found.items()):
        course.check_room()
        asked = [piece for piece in pieces if piece.parts[-1].lower() == REQUEST]
        if asked:
            _keep_request(course, lesson, student, asked[0])
        if len(asked) < len(pieces):
            _take_in(course, lesson, release, student, pieces, from_exchange)
    return sorted(found), strays


def _keep_request(course, lesson, student, piece):
    try:
        write(course.request(lesson, student), piece.content())
    except Refused as error:
        write(course.request(lesson, student), f"{REQUEST} {error}")


def fetch(course: Course, lesson: str) -> Path:
    """Collect from nbgrader's exchange; return the folder with the hand-ins."""
    from nbgrader.exchange import ExchangeError

    app = course.nbgrader()
    app.coursedir.assignment_id = lesson
    app.coursedir.submitted_directory = "exchanged"
    app.coursedir.directory_structure = "{nbgrader_step}/{assignment_id}/{student_id}"
    collector = app.exchange.Collect(coursedir=app.coursedir, authenticator=app.authenticator, parent=app)
    collector.update = True
    with course.log(f"collect-{lesson}", app) as log:
        try:
            collector.start()
        except (ExchangeError, OSError) as error:
            raise MarkingError(
                f"nbgrader's exchange gave no hand-ins: {error}\n{log.read_text().strip()}\n"
                "Without an exchange, name a folder or zip archive: FROM=PATH."
            ) from None
    where = course.folder / "exchanged" / lesson
    known = {person.id for person in students(course)}
    for path in sorted(where.glob("*")):
        with suppress(ValueError):  # not an id: listed as a stray
            enrol(course, [Student(path.name)] if path.name not in known else [])
    return where


def by_student(course: Course, where: Path) -> tuple[dict[str, list[Piece]], list[Stray]]:
    """Assign the files of a folder or zip archive to students, by the first part of their paths."""
    people = students(course)
    if not people:
        raise MarkingError("the gradebook has no students yet: give their list, STUDENTS=FILE.csv")
    if not where.exists():
        raise MarkingError(f"FROM={where}: there is no such folder or file")
    try:
        pieces = [piece for piece in (in_folder if where.is_dir() else in_archive)(where) if not piece.clutter]
    except Refused as error:
        raise MarkingError(f"FROM={where} {error}") from None
    found, strays = defaultdict(list), []
    firsts = {piece.parts[0] for piece in pieces}
    within = all(len(piece.parts) > 1 for piece in pieces)
    if len(firsts) == 1 and within and not _owners(*firsts, people):
        # The download's folder around everything.
        pieces = [replace(piece, parts=piece.parts[1:]) for piece in pieces]
    for piece in pieces:
        name = piece.parts[0]
        owners = _owners(name if len(piece.parts) > 1 else Path(name).stem, people)
        if len(owners) == 1:
            found[owners[0].id].append(piece)
            continue
        several = " and ".join(owner.id for owner in owners)
        reason = f"the name is that of {several}: put it into a folder named by the id" if owners else ""
        strays.append(Stray(plain(piece.name), reason or _nearest(name, people)))
    return found, strays


def _owners(name, people):
    """The students to whom a file or folder of that name may belong."""
    name = unicodedata.normalize("NFKC", name)
    ids = {unicodedata.normalize("NFKC", person.id).casefold(): person for person in people}
    if exact := ids.get(name.casefold()):
        return [exact]
    if match := PLATFORM.match(name):
        words = _words(match["person"])
        return [person for person in people if words == _words(f"{person.first_name} {person.last_name}")]
    prefixed = [person for key, person in ids.items() if name.casefold().startswith(f"{key}_")]
    return sorted(prefixed, key=lambda person: len(person.id))[-1:]


def _words(name):
    """A person's names, sorted, without regard to case or the encoding of accents."""
    return sorted(unicodedata.normalize("NFKC", name).casefold().replace(",", " ").split())


def _nearest(name, people):
    near = get_close_matches(Path(name).stem, [person.id for person in people], n=1)
    return "no student has that id or name" + (f": is it {near[0]}?" if near else "")


def _take_in(course, lesson, release, student, pieces, from_exchange):
    with kept_in(course.folder / "collected" / student / lesson, pieces) as (kept, refused):
        stamps = [content.decode(errors="replace") for piece, content in kept if piece.parts[-1] == STAMP]
        stamp = stamps[0].strip() if from_exchange and stamps else _stamp(pieces)
        _put_together(course, lesson, release, student, stamp, pieces, kept, refused)


def _stamp(pieces):
    latest = max(piece.saved_at for piece in pieces)
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(latest)) if latest else ""


@contextmanager
def kept_in(folder, pieces):
    """Keep a hand-in's originals in a folder, in place of earlier ones once the block has ended well.

    Yields what could be read, and {name: reason} for the rest.
    """
    new, old = (folder.with_name(f".{folder.name}.{what}") for what in ("new", "old"))
    if old.exists() and not folder.exists():  # an earlier command was interrupted here
        old.rename(folder)
    try:
        yield _keep(new, pieces)
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)


def _put_together(course, lesson, release, student, stamp, pieces, kept, refused):
    """Write the lesson with a student's answers, and notes on them."""
    notebooks, unread = inside(kept, ".ipynb")
    refused |= unread
    notes = [f"{plain(name)} {reason}" for name, reason in refused.items()]
    if notebooks:
        name, content, odd = _pick(f"{lesson}.ipynb", release, notebooks)
        notes += odd
        try:
            notebook, odd = answers.answered(release, answers.cells(content))
            notes += odd
        except answers.Unreadable as error:
            notebook = release
            notes.append(f"{plain(name)}: {error}")
    elif any(name.endswith(".ipynb") for name in refused):
        notebook = release
    else:
        notebook = None  # an earlier hand-in's marks stay until there is something to mark
        listed = ", ".join(plain(piece.name) for piece in pieces[:5])
        notes.append(f"no notebook in what was handed in ({listed})")
    before = course.notes(lesson, student)
    marked = before.marked
    if notebook:
        submitted = course.notebook("submitted", lesson, student)
        text = nbformat.writes(notebook) + "\n"
        if not submitted.exists() or submitted.read_text() != text:
            write(submitted, text)
            write(submitted.with_name(STAMP), stamp + "\n")
            again = course.notebook("autograded", lesson, student).exists()
            marked = ("handed in anew, and not marked since",) if again else ()
        for other in set(submitted.parent.iterdir()) - {submitted, submitted.with_name(STAMP)}:
            other.unlink() if not other.is_dir() else shutil.rmtree(other)
    came_as = name_of(pieces) or before.came_as or student
    course.note(lesson, student, replace(before, came_as=came_as, marked=marked, collected=tuple(dict.fromkeys(notes))))


def name_of(pieces):
    """The name by which a learning platform knows whose hand-in it is; empty where none gave it."""
    platform = PLATFORM.match(pieces[0].parts[0])
    return platform["whole"] + "_" if platform else ""


class _Budget:
    """Reads files of one hand-in, up to so many bytes in all."""

    def __init__(self):
        self._left = KEPT_BYTES

    def read(self, piece):
        content = piece.content() if self._left >= 0 else b""
        self._left -= len(content)
        if self._left < 0:
            raise Refused(f"is beyond the {KEPT_BYTES / 2**20:.0f} MiB of one hand-in")
        return content


def _keep(folder, pieces):
    """Keep the originals; return those that could be read, and {name: reason} for the others."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kept, refused, budget = [], {}, _Budget()
    for piece in pieces[:KEPT_FILES]:
        try:
            content = budget.read(piece)
        except Refused as error:
            refused[piece.name] = str(error)
            continue
        except OSError as error:
            refused[piece.name] = f"cannot be read ({error.strerror})"
            continue
        kept.append((piece, content))
        try:
            write(folder.joinpath(*piece.parts), content)
        except OSError as error:
            if error.errno not in NAMES:
                raise
            refused[piece.name] = f"cannot be kept ({error.strerror})"
    if len(pieces) > KEPT_FILES:
        refused["All"] = f"{len(pieces):,} files are more than the {KEPT_FILES:,} that are looked at"
    return kept, refused


def inside(kept, suffix):
    """The files of one suffix among files and in archives, by name, and {name: reason} for what was not read."""
    found, refused, budget = {}, {}, _Budget()
    waiting = [(piece, content, 0) for piece, content in reversed(kept)]
    while waiting:
        piece, content, depth = waiting.pop()
        if piece.suffix == suffix:
            found[piece.name] = content
        if piece.suffix != ".zip" or depth == NESTED:
            continue
        try:
            entries = list(in_archive(content))
        except Refused as error:
            refused[piece.name] = str(error)
            continue
        for entry in entries:
            if entry.clutter or entry.suffix not in (suffix, ".zip"):
                continue
            inner = replace(entry, parts=(*piece.parts, *entry.parts))
            try:
                waiting.append((inner, budget.read(inner), depth + 1))
            except Refused as error:
                refused[inner.name] = str(error)
    return found, refused


def _pick(lesson_name, release, notebooks):
    """The notebook that counts: the only one, or the one with the lesson's name; and notes."""
    if len(notebooks) == 1:
        return *next(iter(notebooks.items())), []
    named = [name for name in notebooks if re.search(rf"(^|[/_]){re.escape(lesson_name)}$", name)]
    if len(named) == 1:
        return named[0], notebooks[named[0]], []
    chosen = max(named or notebooks, key=lambda name: _recognized(release, notebooks[name]))
    listed = ", ".join(plain(name) for name in notebooks)
    return chosen, notebooks[chosen], [f"there are {len(notebooks)} notebooks ({listed}): {plain(chosen)} was taken"]


def _recognized(release, content):
    try:
        return answers.recognized(release, answers.cells(content))
    except answers.Unreadable:
        return -1
