"""CONTRIBUTING.md sends people to files, commands and rooms that there are."""

import re

import pytest

from helpers import ROOT

PACKAGE = ROOT / "source_code" / "ddl"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MADE = (".venv/bin", "build/")  # not in a fresh clone


def listed(text):
    """The paths that a page's blocks list, one a line; those that are indented lie in the one above."""
    for language, block in BLOCK.findall(text):
        above = ""
        for indent, path in re.findall(r"^( *)(\S+)", block, re.MULTILINE) if not language else ():
            above = above if indent else path
            yield above + path if indent else path


def mentioned(text):
    """The paths that stand in a page's sentences; NAME stands for a lesson."""
    words = re.findall(r"`([\w.-]*[/.][\w./-]*)`", BLOCK.sub("", text))
    return [word.replace("NAME", "1.Gradient-Basics") for word in words if not word.startswith(MADE)]


@pytest.mark.parametrize("path", sorted({*listed(CONTRIBUTING), *mentioned(CONTRIBUTING)}))
def test_contributing_names_paths_that_exist(path):
    homes = (ROOT, PACKAGE, ROOT / "source_code" / "strategies")
    assert any((home / path).exists() for home in homes)


def test_contributing_names_targets_of_make_and_every_room():
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][\w-]+)", CONTRIBUTING)) <= targets
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^  (\w+)/ ", CONTRIBUTING, re.MULTILINE))
