"""CHANGELOG.md agrees with what there is."""

import re

import ddl
from ddl.records.machine import versions
from helpers import ROOT


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[0][0] == ddl.__version__ == versions()["ddl"]
    assert headings == sorted(headings, reverse=True)
