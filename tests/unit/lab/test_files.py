"""What an attendee's file list leaves out is there, and nothing that attendees made."""

import asyncio
import shutil
import subprocess

import pytest
from ipykernel.ipkernel import IPythonKernel

from course.lab.files import ATTENDEES, MAINTAINERS, AttendeesFiles, CourseFiles
from helpers import ROOT


def listed(root, path=""):
    found = asyncio.run(AttendeesFiles(root_dir=str(root)).get(path))
    return {each["name"] for each in found["content"]}


@pytest.fixture
def course(tmp_path):
    for name in (*ATTENDEES, *MAINTAINERS, "mine.py"):
        path = tmp_path / name
        path.write_text("{}") if "." in name else path.mkdir()
    (tmp_path / "notebooks" / "results").mkdir()
    return tmp_path


def test_file_list_shows_lessons_and_own_files(course):
    assert listed(course) == {*ATTENDEES, "mine.py"}
    assert listed(course, "notebooks") == {"results"}
    assert listed(course, "grading") == set()  # by its address
    (course / ATTENDEES[0]).unlink()  # another folder than the course's
    assert {"results", "Makefile"} <= listed(course)


def test_every_top_level_name_is_classified():
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    top = {name.split("/")[0] for name in tracked if not name.startswith(".")}
    assert top <= {*ATTENDEES, *MAINTAINERS}


@pytest.fixture
def opened(tmp_path):
    """A lesson's file, its server, and its contents as they are handed to JupyterLab."""
    shutil.copy(ROOT / ATTENDEES[0], tmp_path)
    files = CourseFiles(root_dir=str(tmp_path))
    return tmp_path / ATTENDEES[0], files, asyncio.run(files.get(ATTENDEES[0]))


def test_opened_notebook_is_saved_unchanged(opened):
    path, files, model = opened
    metadata, before = model["content"]["metadata"], path.read_bytes()
    assert metadata["language_info"] == IPythonKernel.language_info
    assert metadata["kernelspec"] == {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    metadata["language_info"]["version"] = "3.11.99"
    asyncio.run(files.save({"type": "notebook", "content": model["content"]}, path.name))
    assert path.read_bytes() == before
