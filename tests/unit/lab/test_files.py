"""What an attendee's file list leaves out is there, and nothing that attendees made."""

import asyncio
import json
import subprocess

import pytest

from ddl import lab
from ddl.lab.files import ATTENDEES, MAINTAINERS, AttendeesFiles
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


def test_an_attendee_sees_the_lessons_and_what_they_made(course):
    assert listed(course) == {*ATTENDEES, "mine.py"}
    assert listed(course, "notebooks") == {"results"}
    assert listed(course, "grading") == set()  # by its address


def test_in_another_folder_everything_is_listed(course):
    (course / ATTENDEES[0]).unlink()
    assert {"results", "Makefile"} <= listed(course)


def test_every_name_of_the_course_is_for_the_one_or_the_other():
    tracked = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    top = {name.split("/")[0] for name in tracked if not name.startswith(".")}
    assert top <= {*ATTENDEES, *MAINTAINERS}


def test_settings_are_json_that_jupyterlab_knows():
    page = json.loads((lab.SETTINGS / "page_config.json").read_text())
    assert all(name.startswith("@jupyter/nbgrader:") for name in page["disabledExtensions"])
    (notices,) = json.loads((lab.SETTINGS / "overrides.json").read_text()).values()
    assert notices == {"checkForUpdates": False, "fetchNews": "false"}
