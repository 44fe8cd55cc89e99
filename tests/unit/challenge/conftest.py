"""What tests of scores share."""

import json

import pytest

from ddl.records.paths import runs_dir
from stage import Stage


@pytest.fixture
def stage(monkeypatch):
    """A stage on which every run gets three pictures in four right."""
    return Stage().set(monkeypatch)


@pytest.fixture
def submission(script):
    """Return a function that writes a submission's file."""
    return lambda text="SAMPLES = 180_224\n", name="mine.py": script(text, name)


@pytest.fixture
def kept():
    """Return a function that reads the one journal there is, as JSON."""

    def read():
        (path,) = runs_dir().glob("challenge/*/journal.json")
        return json.loads(path.read_text())

    return read
