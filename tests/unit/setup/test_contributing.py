"""CONTRIBUTING.md and CHANGELOG.md agree with what there is."""

import re

import ddl
from ddl.records.machine import versions
from helpers import ROOT

PACKAGES = (ROOT / "source_code/ddl", ROOT / "source_code/course")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rooms():
    return {path.parent.name for package in PACKAGES for path in package.glob("*/__init__.py")}


def test_contributing_lists_paths_that_exist_and_every_room():
    homes = (ROOT, *PACKAGES, ROOT / "source_code" / "strategies")
    above = ""
    for language, block in BLOCK.findall(CONTRIBUTING):
        for indent, path in re.findall(r"^( *)(\S+)", block, re.MULTILINE) if not language else ():
            above = above if indent else path
            assert any((home / f"{above * bool(indent)}{path}").exists() for home in homes), path
    assert rooms() | {"scripts"} == set(re.findall(r"^  (\w+)/ ", CONTRIBUTING, re.MULTILINE))


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == ddl.__version__ == versions()["ddl"]
    assert headings == sorted(headings, reverse=True)


def test_unit_tests_lie_in_rooms_as_the_packages_and_none_is_slow():
    unit = ROOT / "tests" / "unit"
    assert {path.parent.name for path in unit.glob("*/test_*.py")} <= {*rooms(), "plot", "scripts", "setup"}
    assert [path for path in unit.rglob("*.py") if re.search(r"mark\.(slow|nightly)", path.read_text())] == []
