"""Fixtures for tests of figures."""

import pytest

from course.shared import figure


@pytest.fixture(autouse=True)
def new_session(monkeypatch):
    """No configuration has been drawn yet."""
    monkeypatch.setattr(figure, "_NUMBERS", {})
