"""The course folder: where each step of an assignment finds and leaves what it works on."""

import glob
import json
import logging
import re
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from nbgrader.api import Gradebook
from nbgrader.apps.baseapp import NbGrader

from ddl.errors import CourseError
from ddl.records import files
from marking import formulas

__all__ = ["GRADING", "Course", "MarkingError", "Notes", "one", "plain", "write"]

GRADING = Path(__file__).resolve().parents[1]
SETTINGS = """\
# Written by the grading commands. What holds is in the file that is named here.
import os

c = get_config()
os.environ["JUPYTER_PATH"] = {share!r} + os.pathsep + os.environ.get("JUPYTER_PATH", {share!r})
c.CourseDirectory.root = {folder!r}
c.CourseDirectory.db_url = {gradebook!r}
load_subconfig("nbgrader_config.py", path={grading!r})
"""


ROOM_BYTES = 2**20  # what any step of one student's may take


class MarkingError(CourseError):
    """A command cannot do its work; the text says why, and what to do."""


@dataclass(frozen=True)
class Notes:
    """What is known of one student's hand-in beside its marks."""

    came_as: str = ""  # the name under which it came: of a learning platform's folder, for example
    # collected, marked: why a person should look at it, as collecting and marking found out
    collected: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    failed: bool = False  # whether marking it did not come to an end: what the gradebook has is not of this hand-in
    # why marks that a person gave do not count any more, by the `grade_id` of their answers
    aside: dict[str, str] = field(default_factory=dict)

    @property
    def reasons(self) -> list[str]:
        return [*self.collected, *self.marked]


@dataclass(frozen=True)
class Course:
    """One course's folder, laid out as nbgrader has it."""

    folder: Path  # absolute. Made when something is first put into it.

    def step(self, step: str, lesson: str, student: str = ".") -> Path:
        """A folder of nbgrader's: `step` is source, release, submitted, autograded, feedback."""
        return self.folder / step / student / lesson

    def notebook(self, step: str, lesson: str, student: str = ".") -> Path:
        return self.step(step, lesson, student) / f"{lesson}.ipynb"

    def lesson(self, beginning: str) -> str:
        """The one released lesson whose name begins like that."""
        released = sorted(path.stem for path in self.folder.glob("release/*/*.ipynb"))
        return one(beginning, released, f"released in {self.folder}", "run `make release LESSON=…`")

    def handed_in(self, lesson: str) -> list[str]:
        """The students with a hand-in, by their ids."""
        found = self.folder.glob(f"submitted/*/{lesson}/*.ipynb")
        return sorted(path.parts[-3] for path in found)

    def nbgrader(self) -> NbGrader:
        """nbgrader as its own commands set it up in this folder."""
        self.settle()
        app = NbGrader(log_level=logging.ERROR)
        app.initialize([], root=str(self.folder))
        app.coursedir.db_url = self.gradebook_url
        return app

    def settle(self) -> None:
        """Make the folder, and let nbgrader's own commands find this course's settings in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = SETTINGS.format(
            folder=str(self.folder),
            grading=str(GRADING),
            gradebook=self.gradebook_url,
            share=str(self.folder / "share"),
        )
        write(self.folder / "nbgrader_config.py", settings)
        template = self.folder / "share" / formulas.TEMPLATE
        if not template.exists() or template.read_text() != formulas.template():
            write(template, formulas.template())

    def gradebook(self) -> Gradebook:
        self.folder.mkdir(parents=True, exist_ok=True)
        return Gradebook(self.gradebook_url)

    @property
    def gradebook_url(self) -> str:
        """The address of the gradebook, in which a `?` would end the path."""
        return f"sqlite:///{quote(str(self.folder / 'gradebook.db'))}"

    def notes(self, lesson: str, student: str) -> Notes:
        path = self._notes(lesson, student)
        if not path.exists():
            return Notes()
        try:
            kept = json.loads(path.read_text())
            return Notes(**kept | {"collected": tuple(kept["collected"]), "marked": tuple(kept["marked"])})
        except (ValueError, TypeError, KeyError):
            return Notes(collected=(f"{path} is damaged: collect and mark again",), failed=True)

    def note(self, lesson: str, student: str, notes: Notes) -> None:
        write(self._notes(lesson, student), json.dumps(vars(notes), indent=1) + "\n")

    @contextmanager
    def alone(self):
        """Keep a second command off this folder while one is at work."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = str(self.folder)
        if "{" in name or "}" in name or glob.glob(name) != [name]:
            raise MarkingError(
                f"COURSE={name}: nbgrader takes some of * ? [ ] {{ }} in a folder's path for a "
                "pattern: choose a name without them"
            )

        def busy():
            raise MarkingError(f"another grading command is at work in {self.folder}: wait for its end") from None

        with files.locked(self.folder / ".lock", busy):
            yield

    def check_room(self, more_bytes: int = 0) -> None:
        """Raise OSError where the disk has no room for one student's work, and for so much more."""
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                file.write(bytes(ROOM_BYTES + more_bytes))
        except OSError as error:
            error.filename = error.filename or str(self.folder)
            raise

    @contextmanager
    def log(self, command: str, app):
        """Send what nbgrader says into a file of its own, whose path this gives."""
        path = self.folder / "log" / f"{command}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        # An application that Python collects meanwhile closes its logger's handlers, and the logger is
        # shared by all of one class. A handler that appends opens its file again.
        handler = logging.FileHandler(path, mode="a", errors="backslashreplace")
        others, level = app.log.handlers[:], app.log.level
        app.log.handlers[:], app.log.propagate = [handler], False
        app.log.setLevel(logging.INFO)
        try:
            yield path
        finally:
            app.log.handlers[:] = others
            app.log.setLevel(level)
            handler.close()

    def _notes(self, lesson, student):
        return self.folder / "notes" / lesson / f"{student}.json"


def one(beginning: str, names: list[str], where: str, otherwise: str) -> str:
    """The one of `names` that begins like that, or all of it."""
    chosen = [name for name in names if name == beginning] or [
        name for name in names if beginning and name.startswith(beginning)
    ]
    if len(chosen) == 1:
        return chosen[0]
    have = ", ".join(names) or f"none: {otherwise}"
    asked = f"LESSON={beginning} names {len(chosen)} lessons" if beginning else "LESSON= is missing"
    raise MarkingError(f"{asked} {where}. There are: {have}.")


def write(path: Path, content: str | bytes) -> None:
    """Write a file so that whoever reads it finds the old or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, content)


def plain(text: str) -> str:
    """`text` in one line of a terminal, whatever characters a file's name is made of."""
    return re.sub(r"[^\w\s!-~…·×–]|[\r\n\t]", "?", text.encode(errors="replace").decode())
