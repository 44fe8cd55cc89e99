"""README, docs/ and the guides name links and commands that exist."""

import pytest

from helpers import ROOT
from pages import faults, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_names_what_exists(page):
    assert faults(page) == []
