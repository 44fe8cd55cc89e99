"""What a contributor is told agrees with what there is."""

import re

import pytest
import yaml

import ddl
from ddl.records.machine import versions
from helpers import ROOT

TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
GITHUB = ROOT / ".github"


def test_continuous_integration_calls_make_and_nothing_else():
    (job,) = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text())["jobs"].values()
    python, *commands = [step for step in job["steps"] if "actions/checkout@" not in step.get("uses", "")]
    assert python["uses"].startswith("actions/setup-python@") and python["with"] == {"python-version": "3.11"}
    called = [re.fullmatch(r"make ([\w-]+)", step["run"]) for step in commands]
    assert all(called) and {"lint", "test"} <= {call[1] for call in called} <= TARGETS


def test_continuous_integration_lints_first_and_fails_on_every_skip():
    commands = re.findall(r"^ *make (.*)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert commands[:-1] == ["setup", "lint", "test STRICT=1", "test-all ONLY=slow"]
    assert commands[-1].startswith("test-nightly DUE=1 ")


def test_hooks_download_nothing():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in repository["hooks"]} == {"system"}


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == ddl.__version__ == versions()["ddl"]
    assert headings == sorted(headings, reverse=True)


@pytest.mark.parametrize("path", sorted(GITHUB.glob("**/*.md")), ids=lambda path: path.name)
def test_templates_ask_what_the_machine_has(path):
    assert "`ddl doctor`" in path.read_text()


def test_unit_tests_lie_in_rooms_as_the_packages_and_none_is_slow():
    unit = ROOT / "tests" / "unit"
    rooms = {path.parent.name for path in (ROOT / "source_code" / "ddl").glob("*/__init__.py")}
    assert {path.parent.name for path in unit.glob("*/test_*.py")} == {*rooms, "scripts", "setup"}
    assert [path for path in unit.rglob("*.py") if re.search(r"mark\.(slow|nightly)", path.read_text())] == []
