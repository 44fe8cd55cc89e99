"""Release of a lesson: nbgrader enters it into the gradebook, and what is handed out depends on nobody's settings."""

import os
import re
import shutil
import tempfile
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
    """Enter a lesson into the gradebook, and write the folder to hand out; return the lesson's name.

    Raises MarkingError and keeps the previous release if nbgrader rejects the lesson.
    """
    texts = {path.stem: path.read_text() for path in sorted(sources.glob("*.py"))}
    lesson = the_one("lesson with graded cells", beginning, [n for n, text in texts.items() if '"grade": true' in text])
    app, source, released = course.nbgrader(), course.step("source", lesson), course.step("release", lesson)
    shutil.rmtree(source, ignore_errors=True)
    try:
        notebook = lessons.master(texts[lesson])
    except Exception as error:  # nbgrader has no common type for what it does not take
        raise MarkingError(f"{lesson} cannot be released: {error}") from None
    for cell in notebook.cells:
        # The notebooks of the repository share a folder of pictures; here each lesson is released with its own.
        for name in {match[2] for match in IMAGE.finditer(cell.source)}:
            write(source / name, (lessons.ROOT / name).read_bytes())
        cell.source = IMAGE.sub(r"\1\2", cell.source)
    write(course.notebook("source", lesson), nbformat.writes(notebook) + "\n")
    with tempfile.TemporaryDirectory(prefix=".releasing-", dir=course.folder) as folder:
        app.coursedir.assignment_id, app.coursedir.release_directory = lesson, Path(folder).name
        _generate(app, course, lesson)
    # A site's settings may make nbgrader write hidden tests.
    shutil.rmtree(released, ignore_errors=True)
    shutil.copytree(source, released, ignore=shutil.ignore_patterns("*.ipynb"))
    write(course.notebook("release", lesson), nbformat.writes(lessons.release(notebook)) + "\n")
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
    with course.log(f"release-{lesson}") as log:
        try:
            Path(exchange).mkdir(parents=True, exist_ok=True)
            Path(exchange).chmod(0o777)  # as nbgrader wants it
            releasing.start()
        except (ExchangeError, OSError) as error:
            output = log.read_text().strip()
            raise MarkingError(f"{EXCHANGE}={exchange} does not take {lesson}: {error}\n{output}") from None
    return exchange


def _generate(app, course, lesson):
    converter = GenerateAssignment(coursedir=app.coursedir, parent=app)
    with course.log(f"release-{lesson}") as log:
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
