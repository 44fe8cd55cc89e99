"""The course folder, with the files of each step of an assignment."""

import json
import logging
import os
import re
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook
from nbgrader.apps.baseapp import NbGrader
from nbgrader.exchange import ExchangeFactory

from course.lab.notebooks import the_one
from ddl.errors import CourseError
from ddl.records import files
from marking import formulas

CHALLENGE = "5.Challenge-score"  # the assignment that has the scores of the challenge
GRADING = Path(__file__).resolve().parents[1]
SETTINGS = """\
# Written by the grading commands. The settings are in the file named here.
import os

c = get_config()
os.environ["JUPYTER_PATH"] = {share!r} + os.pathsep + os.environ.get("JUPYTER_PATH", {share!r})
c.CourseDirectory.root = {folder!r}
c.CourseDirectory.db_url = {gradebook!r}
c.Exchange.root = {folder!r} + "/exchange"  # unless DDL_EXCHANGE names another
load_subconfig("nbgrader_config.py", path={grading!r})
if os.path.exists({own!r}):
    load_subconfig("settings.py", path={folder!r})
"""


class MarkingError(CourseError):
    """Command failed; the message has the reason and a remedy."""


@dataclass(frozen=True)
class Notes:
    """Notes on one student's hand-in; its marks are in the gradebook."""

    came_as: str = ""  # its original name, such as a learning platform's folder
    collected: Sequence[str] = ()  # reasons for a review, found while collecting
    marked: Sequence[str] = ()  # and while marking
    failed: bool = False  # whether marking was not completed, so that the gradebook has marks of another hand-in
    version: str = ""  # a checksum of what was marked; empty where nothing was

    @property
    def reasons(self) -> list[str]:
        return [*self.collected, *self.marked]


@dataclass(frozen=True)
class Course:
    """A course folder in nbgrader's layout."""

    folder: Path  # absolute; made when first needed

    def step(self, step: str, lesson: str, student: str = ".") -> Path:
        """A folder of nbgrader's: `step` is source, release, submitted, autograded, feedback."""
        return self.folder / step / student / lesson

    def notebook(self, step: str, lesson: str, student: str = ".") -> Path:
        return self.step(step, lesson, student) / f"{lesson}.ipynb"

    def lesson(self, beginning: str) -> str:
        """Return the released lesson whose name starts this way."""
        released = sorted(path.stem for path in self.folder.glob("release/*/*.ipynb"))
        if not released:
            raise MarkingError(f"no lesson is released in {self.folder}: run `make release LESSON=…`")
        return the_one("released lesson", beginning, released)

    def handed_in(self, lesson: str) -> list[str]:
        """The ids of the students with a hand-in."""
        return sorted(path.parts[-3] for path in self.folder.glob(f"submitted/*/{lesson}/*.ipynb"))

    def nbgrader(self) -> NbGrader:
        """nbgrader, set up as its own commands do in this folder."""
        self.prepare()
        app = NbGrader(log_level=logging.ERROR)
        app.initialize([], root=str(self.folder))
        app.log_level = logging.INFO
        app.coursedir.db_url = self.gradebook_url
        app.exchange = ExchangeFactory(parent=app)  # which it makes only when it is started as a command
        return app

    @property
    def settings(self) -> Path:
        """The instructor's own settings for nbgrader, read last."""
        return self.folder / "settings.py"

    def request(self, lesson: str, student: str) -> Path:
        """The file with what a student asks to be looked at again."""
        return self.folder / "regrade" / lesson / f"{student}.txt"

    def prepare(self) -> None:
        """Make the folder, with settings for nbgrader's own commands."""
        settings = SETTINGS.format(
            folder=str(self.folder),
            grading=str(GRADING),
            gradebook=self.gradebook_url,
            share=str(self.folder / "share"),
            own=str(self.settings),
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
        """The URL of the gradebook; a command waits a minute for another's lock."""
        return f"sqlite:///{self.folder / 'gradebook.db'}?timeout=60"

    def notes(self, lesson: str, student: str) -> Notes:
        path = self._notes(lesson, student)
        return Notes(**json.loads(path.read_text())) if path.exists() else Notes()

    def note(self, lesson: str, student: str, notes: Notes) -> None:
        write(self._notes(lesson, student), json.dumps(vars(notes), indent=1) + "\n")

    @contextmanager
    def alone(self):
        """Allow one command at a time in this folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if re.search(r"[][*?{}#%]", str(self.folder)):  # of patterns and addresses
            raise MarkingError(f"COURSE={self.folder}: nbgrader needs a name without any of []*?{{}}#%")

        def busy():
            raise MarkingError(f"another grading command is running in {self.folder}: wait until it ends") from None

        with files.locked(self.folder / ".lock", busy):
            yield

    def log_path(self, name: str) -> Path:
        return self.folder / "log" / f"{name}.log"

    @contextmanager
    def log(self, name: str):
        """Send all output, which is nbgrader's, to a separate file, and yield its path."""
        path = self.log_path(name)
        write(path, "")
        sys.stdout.flush()
        kept = os.dup(1), os.dup(2)
        with open(path, "ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        try:
            yield path
        finally:
            sys.stdout.flush()
            for descriptor, before in enumerate(kept, start=1):
                os.dup2(before, descriptor)
                os.close(before)

    def _notes(self, lesson, student):
        return self.folder / "notes" / lesson / f"{student}.json"


def write(path: Path, content: str | bytes) -> None:
    """Write a file atomically, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, content)


def plain(text: str) -> str:
    """Return a text as one printable line."""
    return re.sub(r"[^\w\s!-~…·×–]|[\r\n\t]", "?", text.encode(errors="replace").decode())
