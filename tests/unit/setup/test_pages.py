"""README, the pages of docs/ and the guides send readers to files, headings and commands that there are."""

import pytest

from helpers import ROOT
from pages import faults, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_what_is_there(page):
    assert faults(page.read_text(), page.parent) == []
