"""Launches that cannot start: each says why, and leaves no process."""

import errno
import threading
from datetime import datetime
from unittest.mock import Mock

import pytest

from ddl import launch, runs
from ddl.job.site import SiteError


@pytest.fixture(autouse=True)
def cold(monkeypatch):
    monkeypatch.setenv("DDL_WARM", "no")


def test_ids_are_in_the_order_of_starts_and_a_taken_one_is_not_used_again(monkeypatch):
    at = [datetime(2026, 1, 1, microsecond=each) for each in (999_999, 0, 0, 0, 20)]
    now = iter(sorted(at))
    monkeypatch.setattr("ddl.start.launch.datetime", Mock(now=lambda: next(now)))
    monkeypatch.setattr("ddl.start.launch._spawn", lambda planned, environment, paths, *_: paths.path.name)
    ids = [launch("hello.py", workers=1, wait=False) for _ in range(3)]
    assert ids == [f"20260101-000000-{part}" for part in ("0000", "0001", "ffff")] == sorted(ids)


def test_runs_folder_that_is_a_file_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "file"))
    with pytest.raises(OSError, match="file cannot be made"):
        launch("hello.py", workers=1)


def test_a_variable_that_is_too_long_is_named(monkeypatch):
    monkeypatch.setenv("MY_PATHS", "x" * (1 << 17))
    with pytest.raises(SiteError, match="MY_PATHS"):
        launch("hello.py", workers=1)
    assert runs()[-1].state == "failed" and "MY_PATHS" in runs()[-1].failure.sentence


def test_a_limit_of_processes_is_named(monkeypatch):
    refused = BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    monkeypatch.setattr("subprocess.Popen", Mock(side_effect=refused))
    with pytest.raises(SiteError, match="ulimit -u"):
        launch("hello.py", workers=1)


def test_a_launch_without_another_thread_ends_its_process(monkeypatch, nothing_left):
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
    with pytest.raises(SiteError, match="ulimit -u"):
        launch("hello.py", workers=1)
    assert runs()[-1].state == "failed"
