"""Shared fixtures: a private runs folder and cache, and scripts to launch."""

import textwrap

import pytest

from ddl import processes
from ddl.record import data_dir


@pytest.fixture(autouse=True)
def private_folders(tmp_path_factory, monkeypatch):
    """Give every test its own runs folder; data sets and the build's answer stay shared."""
    monkeypatch.setenv("DDL_DATA_DIR", str(data_dir()))
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))
    monkeypatch.setenv("DDL_VIEW", "plain")


@pytest.fixture
def script(tmp_path):
    """Return a function that writes a script and gives its path."""

    def write(text, name="script.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


@pytest.fixture
def nothing_left():
    """Return a function that fails when a process of that run is still alive."""

    def check(run):
        assert processes.of_run(run.id) == []

    return check
