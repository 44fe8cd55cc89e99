"""Course folders that real nbgrader works on, and what students hand in."""

import contextlib
import copy
import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from helpers import ROOT

sys.path.insert(0, str(ROOT / "grading"))
sys.path.insert(0, str(Path(__file__).parent))

import lessons
from course.grader import launches
from course.grader.limits import Limits
from marking import sandbox

TINY = "1.Tiny-Lesson"
PATHS = os.pathsep.join([str(ROOT / "grading"), str(ROOT / "tools")])
ADOPT_ORPHANS = 36  # prctl's PR_SET_CHILD_SUBREAPER


class Lesson:
    """A lesson's source, solved and as it is handed out, and the making of hand-ins from it."""

    def __init__(self, name, sources):
        self.name, self.sources = name, sources
        self.solved = lessons.master((sources / f"{name}.py").read_text())
        self.released = lessons.release(self.solved)
        self.points = {
            cell.metadata.nbgrader["grade_id"]: cell.metadata.nbgrader["points"]
            for cell in self.solved.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        }
        self.auto = sum(points for name, points in self.points.items() if name.endswith("_test"))
        self.tests = [name for name in self.points if name.endswith("_test")]
        self.max = sum(self.points.values())

    def right(self):
        """The hand-in of a student who has solved everything."""
        notebook = copy.deepcopy(self.released)
        for cell, solved in zip(notebook.cells, self.solved.cells, strict=True):
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = re.sub(r"(?m)^.*(BEGIN|END) SOLUTION.*\n?", "", solved.source)
        return notebook

    def untouched(self):
        return copy.deepcopy(self.released)

    def answer(self, notebook, name):
        """The cell of that `grade_id`."""
        (found,) = [cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == name]
        return found

    def code_answers(self, notebook):
        return [
            cell
            for cell in notebook.cells
            if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution")
        ]


class CourseFolder:
    """A course folder and the commands that work on it."""

    def __init__(self, folder, lesson):
        self.folder, self.lesson = folder, lesson

    def __call__(self, command, *arguments, expect=0, **options):
        """Run a grading command as its target in the Makefile does."""
        line = [sys.executable, "-m", "marking", "--course", self.folder, command, self.lesson.name]
        return self._run([*line, *map(str, arguments)], expect, env=self.env(), **options)

    def make(self, target, *settings):
        line = ["make", "-s", target, f"LESSON={self.lesson.name}", f"COURSE={self.folder}", f"VENV={sys.prefix}"]
        return self._run([*line, *settings])

    def _run(self, line, expect=0, **options):
        done = subprocess.run(line, text=True, capture_output=True, cwd=ROOT, **options)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def env(self):
        return os.environ | {"PYTHONPATH": PATHS}

    def release(self, students):
        people = self.folder.parent / "students.csv"
        lines = [",".join(person) for person in students]
        people.write_text("\n".join(["id,first_name,last_name,email", *lines]) + "\n")
        return self("release", "--sources", self.lesson.sources, "--students", people)

    def rows(self):
        from marking import autograde
        from marking.course import Course

        return {row.student.id: row for row in autograde.rows(Course(self.folder), self.lesson.name)}

    def totals(self):
        return {name: row.total for name, row in self.rows().items()}

    def notebook(self, step, student="."):
        path = self.folder / step / student / self.lesson.name / f"{self.lesson.name}.ipynb"
        return nbformat.read(path, as_version=4)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A lesson of four questions, one of them of each kind."""
    sources = tmp_path_factory.mktemp("sources")
    shutil.copy(Path(__file__).parent / "tiny.py", sources / f"{TINY}.py")
    return Lesson(TINY, sources)


@pytest.fixture(scope="session")
def own_lesson():
    """Return a function that reads one of the course's own lessons, by its name."""
    return lambda name: Lesson(name, ROOT / "lessons")


@pytest.fixture(scope="session")
def course_folder():
    """Return the class of course folders: (folder, lesson)."""
    return CourseFolder


@pytest.fixture
def course(tmp_path, tiny):
    """A course folder with the tiny lesson released to Ann, Bob and Cyd."""
    folder = CourseFolder(tmp_path / "course", tiny)
    folder.release([("ann", "Ann", "Ames", ""), ("bob", "Bob", "Ames", ""), ("cyd", "Cyd", "Ames", "cyd@example.org")])
    return folder


@pytest.fixture
def hand_in(tmp_path):
    """Return a function that writes a notebook (or bytes) into the folder of hand-ins."""
    folder = tmp_path / "handed in"
    folder.mkdir()

    def write(name, content):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            content = nbformat.writes(content).encode()
        path.write_bytes(content)
        return path

    write.folder = folder
    return write


@pytest.fixture(scope="session")
def empty_gradebook(tmp_path_factory):
    """A gradebook without anybody: nbgrader takes a second to make one."""
    from nbgrader.api import Gradebook

    path = tmp_path_factory.mktemp("gradebook") / "gradebook.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{sys.prefix}/bin:{os.environ['PATH']}")
        Gradebook(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def computing():
    """Return a function that tests whether a sandbox below a process has started to compute."""
    here = os.readlink("/proc/self/ns/pid")

    def computes(pid):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess, OSError):  # it ended meanwhile
                if os.readlink(f"/proc/{process.pid}/ns/pid") != here and process.cpu_times().user > 1:
                    return True
        return False

    return computes


@pytest.fixture(scope="module")
def orphans():
    """Return a function that gives the processes which a module's tests have left behind, so far."""
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1)
    before = {process.pid for process in psutil.Process().children(recursive=True)}

    def left():
        found = []
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
                # Processes that ran before, such as a browser, may start others.
                family = {process.pid, *(parent.pid for parent in process.parents())}
                if not family & before and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    yield left
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 0)  # later tests' orphans are not ours to collect


@pytest.fixture(scope="module")
def ranks():
    if not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    started = launches.Launches(sandbox.start_launcher, Limits(launch_s=60))
    yield started
    started.close()


@pytest.fixture
def lost(ranks, monkeypatch):
    """Return a function that launches a script, and gives the sentence of each check that it does not pass.

    It takes the script, a function that tries it, and the checks of what that returns, by name.
    """

    def lost(script, trial, checks):
        monkeypatch.setattr(launches, "launch", lambda request: ranks.answer(request, script))
        found, sentences = trial(), {}
        for name, check in checks.items():
            try:
                check(found)
            except AssertionError as error:
                sentences[name] = str(error)
        return sentences

    return lost
