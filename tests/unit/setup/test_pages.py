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


def test_of_each_kind_what_is_not_there_is_a_fault():
    for text, sentence in (
        ("[there](docs/nowhere.md)", "docs/nowhere.md: no such file"),
        ("[there](README.md#nowhere)", "README.md#nowhere: no such heading"),
        ("`make supper`", "make supper: no such target"),
        ("```sh\nmake lab LESON=4\n```", "make LESON=4: the Makefile has no such variable"),
        ("`ddl dance`", "invalid choice: 'dance'"),
        ("```sh\nddl run --workers two hello.py\n```", "invalid int value: 'two'"),
        ("text\n\n    ddl run hello.py --loud\n", "hello.py has no option loud"),
        ("```sh\npythn tools/lessons.py\n```", "pythn is no program"),
        ("`from ddl.rank import guests`", "ddl.rank has no guests"),
        ('```python\nlaunch("train_cifar.py", recipes="warmup")\n```', "train_cifar.py has no option recipes"),
        ("`tests/unit/nothing.py`", "tests/unit/nothing.py: no such path"),
    ):
        (fault,) = faults(text)
        assert sentence in fault


def test_instructors_look_at_lines_that_doctor_has():
    page = (ROOT / "docs" / "instructors.md").read_text().split("\n## The day before\n")[1].split("\n## ")[0]
    listed = {name for cell in re.findall(r"^\| (`[^|]+) \|", page, re.M) for name in re.findall(r"`([^`]+)`", cell)}
    files = [*(ROOT / "source_code/ddl/diagnose").glob("*.py"), ROOT / "source_code/course/plugin.py"]
    checks = "\n".join(path.read_text() for path in files)
    assert len(listed) > 9 and listed <= set(re.findall(r'(?:Check\(\s*|missing\(\s*|name = )"([^"]+)"', checks))
