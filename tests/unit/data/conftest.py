"""Fixtures for tests of data sets."""

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty data folder for each test."""
    monkeypatch.setenv("DDL_DATA_DIR", str(tmp_path))
    return tmp_path
