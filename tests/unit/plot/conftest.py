"""Fixtures for tests of figures."""

import pytest

from course.shared import figure


@pytest.fixture(autouse=True)
def new_session(monkeypatch):
    """No arm has been drawn yet."""
    monkeypatch.setattr(figure, "_NUMBERS", {})
