"""Ranks of these tests come from one template, unless a test asks for cold ones."""

import pytest

from ddl.launcher import warm


@pytest.fixture(scope="session", autouse=True)
def horovod():
    pytest.importorskip("horovod")


@pytest.fixture(scope="session")
def template():
    """The template of all tests here (tests/conftest.py ends it)."""
    return warm.await_ready()


@pytest.fixture(autouse=True)
def start(request, monkeypatch):
    """How ranks start: "warm", or "cold" where a test is parametrized so."""
    how = getattr(request, "param", "warm")
    if how == "cold":
        monkeypatch.setenv("DDL_WARM", "no")
    else:
        monkeypatch.delenv("DDL_WARM", raising=False)
        warm.await_ready()
    return how
