"""CONTRIBUTING.md and CHANGELOG.md agree with what there is."""

import re

import ddl
from ddl.records.machine import versions
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


def test_contributing_names_paths_that_exist():
    homes = (ROOT, PACKAGE, ROOT / "source_code" / "strategies")
    paths = {*listed(CONTRIBUTING), *mentioned(CONTRIBUTING)}
    assert {path for path in paths if not any((home / path).exists() for home in homes)} == set()


def test_contributing_names_targets_of_make_and_every_room():
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z][\w-]+)", CONTRIBUTING)) <= targets
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms == set(re.findall(r"^  (\w+)/ ", CONTRIBUTING, re.MULTILINE))


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == ddl.__version__ == versions()["ddl"]
    assert headings == sorted(headings, reverse=True)


def test_unit_tests_lie_in_rooms_as_the_packages_and_none_is_slow():
    unit = ROOT / "tests" / "unit"
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {path.parent.name for path in unit.glob("*/test_*.py")} == {*rooms, "scripts", "setup"}
    assert [path for path in unit.rglob("*.py") if re.search(r"mark\.(slow|nightly)", path.read_text())] == []
