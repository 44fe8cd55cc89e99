"""README, the pages of docs/ and the guides send readers to files, headings and commands that there are."""

import json
import re

import pytest

from helpers import ROOT
from pages import faults, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_is_there(page):
    assert faults(page.read_text(), page.parent) == []


def test_the_development_container_runs_what_there_is():
    made = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert faults(f"`{made['postCreateCommand']}`, `{made['postAttachCommand']}`") == []
    assert made["image"].startswith("python:3.11-")  # the default stack's, see tools/python.sh
    assert all((ROOT / file).exists() for file in made["customizations"]["codespaces"]["openFiles"])


def test_instructors_look_at_lines_that_doctor_has():
    page = (ROOT / "docs" / "instructors.md").read_text().split("\n## The day before\n")[1].split("\n## ")[0]
    listed = {name for cell in re.findall(r"^\| (`[^|]+) \|", page, re.M) for name in re.findall(r"`([^`]+)`", cell)}
    files = [*(ROOT / "source_code/ddl/diagnose").glob("*.py"), ROOT / "source_code/course/plugin.py"]
    checks = "\n".join(path.read_text() for path in files)
    assert len(listed) > 9 and listed <= set(re.findall(r'(?:Check\(\s*|missing\(\s*|name = )"([^"]+)"', checks))
