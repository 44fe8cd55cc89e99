"""README, docs/ and the guides name links and commands that exist."""

import pytest

from helpers import ROOT
from pages import faults, pages, stale


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_what_exists(page):
    assert faults(page) == []


def test_stale_name_and_entry_of_a_tree_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```\nsource_code/ddl/   the tool\n  errors.py   errors\n  gone.py   nothing\ntests/nowhere/   no tests\n```\n"
        "`job/plan.py` is there, and `job/plans.py` is not.\n"
    )
    assert stale(page) == ["source_code/ddl/gone.py", "tests/nowhere/", "job/plans.py"]
