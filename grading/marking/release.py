"""Release a lesson, and compare what nbgrader made of it with what it has to be: nothing secret may be in it."""

import os
import re
import shutil
from pathlib import Path

import nbformat
from nbgrader.converters import GenerateAssignment
from nbgrader.exchange import ExchangeError

import lessons
from course.lab.handin import EXCHANGE
from course.lab.notebooks import the_one
from marking.course import Course, MarkingError, write

IMAGE = re.compile(r"(!\[[^\]]*\]\()(?:\.\./)?(images/[^)\s]+)")


def release(course: Course, beginning: str, sources: Path) -> str:
    """Generate a lesson's assignment with nbgrader; return the lesson's name.

    Raises MarkingError and keeps the previous release if nbgrader rejects the lesson, or if its result is not what it
    has to be.
    """
    texts = {path.stem: path.read_text() for path in sorted(sources.glob("*.py"))}
    names = [name for name, text in texts.items() if '"grade": true' in text]
    lesson = the_one("lesson with graded cells", beginning, names)
    app = course.nbgrader()
    names = _write_source(course, lesson, texts[lesson])
    released, before = course.step("release", lesson), course.folder / ".before"
    shutil.rmtree(before, ignore_errors=True)
    if released.exists():
        released.rename(before)
    try:
        _generate(app, course, lesson)
        if found := differences(nbformat.read(course.notebook("source", lesson), 4), released, names):
            listed = "".join(f"\n    {line}" for line in found)
            raise MarkingError(f"{lesson} is not released: what nbgrader made of it differs from the lesson:{listed}")
    except BaseException:
        shutil.rmtree(released, ignore_errors=True)
        if before.exists():
            before.rename(released)
        raise
    shutil.rmtree(before, ignore_errors=True)
    return lesson


def to_exchange(course: Course, lesson: str) -> str:
    """Put a released lesson into the exchange that ``DDL_EXCHANGE`` names, once more if it is there; return where.

    Without that, return an empty text.
    """
    exchange = os.environ.get(EXCHANGE, "")
    if not exchange:
        return ""
    app = course.nbgrader()
    app.coursedir.assignment_id = lesson
    releasing = app.exchange.ReleaseAssignment(coursedir=app.coursedir, authenticator=app.authenticator, parent=app)
    releasing.force = True
    with course.log(f"release-{lesson}", app) as log:
        try:
            Path(exchange).mkdir(parents=True, exist_ok=True)
            Path(exchange).chmod(0o777)  # as nbgrader wants it
            releasing.start()
        except (ExchangeError, OSError) as error:
            output = log.read_text().strip()
            raise MarkingError(f"{EXCHANGE}={exchange} does not take {lesson}: {error}\n{output}") from None
    return exchange


def differences(source, released: Path, names: set[str]) -> list[str]:
    """Return how the folder `released` differs from what nbgrader's steps make of a lesson if a site changes none.

    `source` is the lesson's notebook with solutions; `names` are the relative paths of the files that belong in the
    folder, its notebook among them.
    """
    files = {str(path.relative_to(released)) for path in released.rglob("*") if not path.is_dir()}
    found = [f"{name}: a file that is not the lesson's" for name in sorted(files - names)]
    found += [f"{name}: missing" for name in sorted(names - files)]
    expected = lessons.release(source)
    public = {line for cell in expected.cells for line in cell.source.splitlines()}
    for name in sorted(name for name in files & names if name.endswith(".ipynb")):
        notebook = nbformat.read(released / name, as_version=4)
        if notebook != expected:
            lines = [line for cell in notebook.cells for line in cell.source.splitlines() if line not in public]
            found += [f"{name}: {line.strip()}" for line in lines or ["an output or metadata that is not the lesson's"]]
    return found


def _write_source(course, lesson, text):
    """Rewrite nbgrader's source folder; return the names of the files to release."""
    folder = course.step("source", lesson)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        notebook = lessons.master(text)
    except Exception as error:  # nbgrader has no common type for what it does not take
        raise MarkingError(f"{lesson} cannot be released: {error}") from None
    names = {f"{lesson}.ipynb"}
    for cell in notebook.cells:
        # The notebooks of the repository share a folder of pictures; here each lesson is released with its own.
        for name in {match[2] for match in IMAGE.finditer(cell.source)}:
            write(folder / name, (lessons.ROOT / name).read_bytes())
            names.add(name)
        cell.source = IMAGE.sub(r"\1\2", cell.source)
    write(course.notebook("source", lesson), nbformat.writes(notebook) + "\n")
    return names


def _generate(app, course, lesson):
    app.coursedir.assignment_id = lesson
    converter = GenerateAssignment(coursedir=app.coursedir, parent=app)
    converter.force = True
    with course.log(f"release-{lesson}", app) as log:
        try:
            converter.start()
        except Exception as error:  # nbgrader's own message repeats its log
            output = log.read_text()
            if "there are submissions associated" in output:
                raise MarkingError(
                    f"the graded cells of {lesson} changed after hand-ins of it were marked in "
                    f"{course.folder}, which nbgrader does not allow. Release it into a new course "
                    "folder: COURSE=DIR."
                ) from None
            raise MarkingError(f"nbgrader did not take {lesson}: {error}\n{output}") from None
