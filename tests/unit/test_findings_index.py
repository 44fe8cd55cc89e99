"""The scripts in findings/, which no test runs, and their index."""

import re
import subprocess

import pytest

from helpers import ROOT

FOLDER = ROOT / "findings"


def test_index_lists_each_script_with_its_behavior_and_date():
    rows = []
    for script in sorted(FOLDER.glob("*.sh")):
        text = script.read_text()
        behavior = re.match(r"#!/usr/bin/env bash\n# (.*)\n#\n# Guess: ", text)[1]
        seen = re.search(r"^# Seen on (\d{4}-\d\d-\d\d):", text, re.MULTILINE)[1]
        assert "\n# Outcome: " in text and "mktemp -d" in text and not {"course", "ddl"} & set(re.findall(r"\w+", text))
        rows.append((script.stem, seen, behavior))
    listed = re.findall(r"^\| `(\w+)` \| (\S+) \| (.*?) \| (.*) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert [row[:3] for row in listed] == rows
    paths = [path for row in listed for path in re.findall(r"`([\w.-]+/[\w./-]+)`", row[3])]
    assert paths and all((ROOT / path).is_file() for path in paths)


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.stem)
def test_script_is_valid_bash(script):
    subprocess.run(["bash", "-n", script], check=True)
