"""Release a lesson, after proving that none of its solutions are in it."""

import json
import os
import re
import shutil
from pathlib import Path

import nbformat
from nbgrader import utils
from nbgrader.converters import GenerateAssignment
from nbgrader.exchange import ExchangeError

import lessons
from course.grader.handin import EXCHANGE
from course.grader.notebooks import the_one
from marking.course import Course, MarkingError, write

KINDS = ("SOLUTION", "HIDDEN TESTS", "MARK SCHEME")
BEGIN, END = (re.compile(rf"{word} ({'|'.join(KINDS)})") for word in ("BEGIN", "END"))
STUBS = {"# YOUR CODE HERE", "raise NotImplementedError()", "YOUR ANSWER HERE"}
TELLING = 12  # characters: a secret line this long is also searched inside other lines
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')  # in JSON, where each line of a cell is one
IMAGE = re.compile(r"(!\[[^\]]*\]\()(?:\.\./)?(images/[^)\s]+)")


def release(course: Course, beginning: str, sources: Path) -> str:
    """Generate a lesson's assignment with nbgrader; return the lesson's name.

    Raises MarkingError and keeps the previous release if nbgrader rejects the lesson, or if its result contains
    anything secret.
    """
    texts = {path.stem: path.read_text() for path in sorted(sources.glob("*/*.py"))}
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
        if found := leaks(nbformat.read(course.notebook("source", lesson), 4), released, names):
            listed = "\n".join(f"    {leak}" for leak in found)
            raise MarkingError(
                f"{lesson} is not released: what nbgrader made of it holds what nobody should be handed:\n{listed}"
            )
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


def secrets(notebook) -> set[str]:
    """The lines of solutions, hidden tests and mark schemes in a source notebook.

    Without those that are public too, and those without a word.
    """
    secret, public = set(), set(STUBS)
    for cell in notebook.cells:
        whole = utils.is_solution(cell) and not BEGIN.search(cell.source)
        inside = False
        for line in cell.source.splitlines():
            inside = inside or bool(BEGIN.search(line))
            (secret if inside or whole else public).add(line.strip())
            inside = inside and not END.search(line)
    shown = "\n".join(public)
    return {line for line in secret - public if re.search(r"\w", line) and not (len(line) >= TELLING and line in shown)}


def leaks(source, released: Path, names: set[str]) -> list[str]:
    """Return what must not be released in the folder `released`, which is not trusted.

    `source` is the lesson's notebook with solutions, `names` the relative paths of the files that belong in the folder.
    """
    files = {str(path.relative_to(released)) for path in released.rglob("*") if not path.is_dir()}
    found = [f"{name}: a file that is not the lesson's" for name in sorted(files - names)]
    found += [f"{name}: missing" for name in sorted(names - files)]
    hidden = secrets(source)
    long = [line for line in hidden if len(line) >= TELLING]
    for name in sorted(name for name in files & names if name.endswith(".ipynb")):
        content = (released / name).read_text()
        for text in map(json.loads, STRING.findall(content)):
            for line in map(str.strip, text.splitlines()):
                if line in hidden or BEGIN.search(line) or END.search(line) or any(part in line for part in long):
                    found.append(f"{name}: {line}")
        for cell in json.loads(content)["cells"]:
            if cell.get("outputs") or cell.get("attachments"):
                found.append(f"{name}: an output or an attachment of cell {cell.get('id')}")
    return found


def _write_source(course, lesson, text):
    """Write nbgrader's source folder anew; return the names of the files to release."""
    folder = course.step("source", lesson)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        notebook = lessons.master(text)
    except Exception as error:  # nbgrader has no common type for what it does not take
        raise MarkingError(f"{lesson} cannot be released: {error}") from None
    names = {f"{lesson}.ipynb"}
    for cell in notebook.cells:
        # In notebooks/ the pictures lie in a folder beside it; here they are handed out with it.
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
        except Exception as error:  # nbgrader's own is no more telling than its log
            output = log.read_text()
            if "there are submissions associated" in output:
                raise MarkingError(
                    f"{lesson} has got other graded cells since hand-ins of it were marked in "
                    f"{course.folder}, and nbgrader cannot change that. Release it into a new "
                    "course folder: COURSE=DIR."
                ) from None
            raise MarkingError(f"nbgrader did not take {lesson}: {error}\n{output}") from None
