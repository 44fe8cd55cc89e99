"""Collection of hand-ins from a folder, a zip archive or nbgrader's exchange, prepared for marking."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import nbformat
from nbgrader import utils
from nbgrader.apps.zipcollectapp import ZipCollectApp
from nbgrader.exchange import ExchangeError

from marking import answers
from marking.course import Course, MarkingError, plain, write
from marking.students import Student, enrol, students
from marking.zip_plugins import REQUEST, STAMP, Collector, Extractor, Refused

NOTEBOOK = re.compile(r"\.ipynb(\.json|\.txt)?$", re.IGNORECASE)  # some browsers add a suffix


@dataclass(frozen=True)
class HandIn:
    """A student's files as nbgrader's zip collector has grouped them."""

    student: str
    folder: Path  # with copies of the files
    refused: dict[str, str]  # why others were left out, by name
    came_as: str  # Moodle's name of the hand-in; empty for other sources

    def files(self, kind: re.Pattern = re.compile("")) -> dict[str, Path]:
        """The files whose names match, by name; nbgrader's timestamp is none of them."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file() and kind.search(path.name))
        paths = [path for path in paths if path.name != STAMP]
        return {str(path.relative_to(self.folder)): path for path in paths}


def collect(course: Course, lesson: str, where: Path | None) -> tuple[list[str], dict[str, str]]:
    """Collect all hand-ins in a folder or zip archive; return the ids of their students, and why files match nobody.

    Without `where`, collect from nbgrader's exchange. Originals are kept byte for byte under collected/; under
    submitted/ is the released lesson with the student's answers. An earlier hand-in of the same student is replaced;
    those of students not in `where` stay.
    """
    release = nbformat.read(course.notebook("release", lesson), as_version=4)
    with gathered(course, lesson, where) as (found, strays):
        for each in found:
            requests = each.files(re.compile(f"^{re.escape(REQUEST)}$", re.IGNORECASE))
            for path in requests.values():
                write(course.request(lesson, each.student), path.read_bytes())
            if len(requests) < len(each.files()) or each.refused:
                _take_in(course, lesson, release, each)
        return [each.student for each in found], strays


def in_exchange(course: Course, lesson: str) -> dict[str, Path]:
    """Return the folder of each student's latest hand-in in nbgrader's exchange, and enrol these students."""
    app = course.nbgrader()
    app.coursedir.assignment_id = lesson
    collector = app.exchange.Collect(coursedir=app.coursedir, authenticator=app.authenticator, parent=app)
    with course.log(f"collect-{lesson}") as log:
        try:
            collector.ensure_root()
            collector.init_src()
        except (ExchangeError, OSError) as error:
            raise MarkingError(
                f"nbgrader's exchange gave no hand-ins: {error}\n{log.read_text().strip()}\n"
                "Without an exchange, name a folder or zip archive: FROM=PATH."
            ) from None
    found = {each["username"]: Path(collector.inbound_path, each["filename"]) for each in collector.src_records}
    found = {name: path for name, path in found.items() if not path.is_symlink()}  # nbgrader would follow it
    for name in found.keys() - {person.id for person in students(course)}:
        with suppress(ValueError):  # not an id: listed as a stray
            enrol(course, [Student(name)])
    return found


@contextmanager
def gathered(course: Course, lesson: str, where: Path | None) -> Iterator[tuple[list[HandIn], dict[str, str]]]:
    """Run nbgrader's zip collector; yield the hand-ins, and {name: reason} for files that match no student.

    Without `where`, they are those in nbgrader's exchange, where a file ``timestamp.txt`` is nbgrader's own and says
    when a student handed in.
    """
    sources = {"": where} if where else in_exchange(course, lesson)
    people = students(course)
    if not people:
        raise MarkingError("the gradebook has no students yet: give their list, STUDENTS=FILE.csv")
    if where and not where.exists():
        raise MarkingError(f"FROM={where}: no folder or file has this name")
    with tempfile.TemporaryDirectory(prefix=".collecting-", dir=course.folder) as folder:
        place, app = Path(folder), course.nbgrader()
        (place / lesson / "archive").mkdir(parents=True)
        app.coursedir.assignment_id, app.coursedir.submitted_directory = lesson, f"{place.name}/submitted"
        collecting = ZipCollectApp(parent=app, coursedir=app.coursedir, downloaded_directory=place.name)
        collecting.extractor_plugin, collecting.collector_plugin = Extractor, Collector
        with course.log(f"collect-{lesson}"):
            collecting.init_plugins()
            extractor, collector = collecting.extractor_plugin_inst, collecting.collector_plugin_inst
            extractor.sources = sources
            try:
                collecting.extract_archive_files()
            except Refused as error:
                raise MarkingError(f"FROM={where} {error}") from None
            collector.prepare(place / lesson / "extracted", people, not where, list(extractor.refused))
            collecting.process_extracted_files()
        refused = {}
        for name, reason in extractor.refused.items():
            refused.setdefault(collector.owner(name), {})[name] = reason
        owners = {path.name for path in (place / "submitted").glob("*")} | {*refused} - {None}
        found = [
            HandIn(id, place / "submitted" / id / lesson, refused.get(id, {}), collector.came_as.get(id, ""))
            for id in sorted(owners)
        ]
        yield found, {plain(name): reason for name, reason in collector.strays.items()}


def keep(course: Course, lesson: str, hand_in: HandIn, notes: list[str], news: str = "") -> None:
    """Move a hand-in's files to collected/, in place of an earlier hand-in's, and note why a person should look at it.

    `news` is a reason to mark it again, if there is one.
    """
    student, before = hand_in.student, course.notes(lesson, hand_in.student)
    notes = dict.fromkeys([f"{plain(name)} {reason}" for name, reason in hand_in.refused.items()] + notes)
    came_as = hand_in.came_as or before.came_as or student
    marked = (news,) if news else before.marked
    course.note(lesson, student, replace(before, came_as=came_as, marked=marked, collected=tuple(notes)))
    folder = course.folder / "collected" / student / lesson
    shutil.rmtree(folder, ignore_errors=True)
    for path in (hand_in.folder, folder.parent):
        path.mkdir(parents=True, exist_ok=True)
    hand_in.folder.rename(folder)


def _take_in(course, lesson, release, hand_in):
    """Write the lesson with a student's answers, and notes on them."""
    notebooks, stamp = hand_in.files(NOTEBOOK), hand_in.folder / STAMP
    notebook, notes, news = None, [], ""
    if notebooks:
        notebook, notes = _chosen(lesson, release, notebooks)
    elif any(NOTEBOOK.search(name) for name in hand_in.refused):
        notebook = release
    else:  # an earlier hand-in's marks stay until there is something to mark
        listed = ", ".join(map(plain, [*hand_in.files(), *hand_in.refused][:5]))
        notes = [f"no notebook in what was handed in ({listed})"]
    if notebook:
        submitted = course.notebook("submitted", lesson, hand_in.student)
        text = nbformat.writes(notebook) + "\n"
        if not submitted.exists() or submitted.read_text() != text:
            write(submitted, text)
            write(submitted.with_name(STAMP), stamp.read_text() if stamp.exists() else "1970-01-01")
            if course.notebook("autograded", lesson, hand_in.student).exists():
                news = "handed in again, and not marked since"
    keep(course, lesson, hand_in, notes, news)


def _chosen(lesson, release, notebooks):
    """Return the lesson with a student's answers, out of the notebook that has most of them, and notes."""
    read = {name: _answered(release, name, path.read_bytes()) for name, path in notebooks.items()}
    count = {name: _count(release, made) for name, (made, _) in read.items()}
    exact = {name: bool(re.search(rf"(^|[/_]){re.escape(lesson)}\.ipynb$", name)) for name in notebooks}
    name = max(notebooks, key=lambda name: (count[name], exact[name], notebooks[name].stat().st_mtime))
    notebook, notes = read[name]
    if sum(number != 0 for number in count.values()) > 1:  # an unanswered one needs no look
        listed = ", ".join(f"{plain(name)} with {number} answers" for name, number in count.items())
        notes = [f"there are {len(notebooks)} notebooks ({listed}): {plain(name)} counts", *notes]
    return notebook or release, notes


def _answered(release, name, content):
    try:
        return answers.answered(release, answers.cells(content))
    except answers.Unreadable as error:
        return None, [f"{plain(name)}: {error}"]


def _count(release, notebook):
    """Return the number of answers that differ from the release."""
    if notebook is None:
        return -1
    handed_out = {cell.id: cell.source.strip() for cell in release.cells if utils.is_solution(cell)}
    return sum(cell.source.strip() not in ("", handed_out.get(cell.id, cell.source.strip())) for cell in notebook.cells)
