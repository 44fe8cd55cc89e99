"""Set-ups start no templates."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_templates_left():
    """None are started here; there may be those of tests beside these."""
