"""Ranks of these tests are forked, unless a test asks for cold ones."""

import pytest

from ddl.start import fork_client
from helpers import until


@pytest.fixture(scope="session", autouse=True)
def horovod():
    pytest.importorskip("horovod")


@pytest.fixture(autouse=True)
def start(request, monkeypatch):
    """How ranks start: "warm", or "cold" if a test is parametrized with it."""
    how = getattr(request, "param", "warm")
    if how == "warm":
        monkeypatch.delenv("DDL_WARM", raising=False)
        if fork_client.connection():
            until(lambda: fork_client.connection(start=False))  # a script that imports little waits for no server
    return how
