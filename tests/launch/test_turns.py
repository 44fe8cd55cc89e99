"""Launches that share a machine's cores: one after another, and each is told what it waits for."""

import pytest

from ddl import launch
from helpers import until

SLEEP = "import time\ntime.sleep(2)"


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_QUEUE", str(tmp_path / "queue"))


def test_two_of_a_class_run_in_turn_and_one_that_waits_can_be_stopped(script, queue, nothing_left):
    path = script(SLEEP)
    first = launch(path, name="first", oversubscribe=True, wait=False)
    until(lambda: first.progress().ranks, 60)
    second = launch(path, name="second", oversubscribe=True, wait=False)
    third = launch(path, name="third", oversubscribe=True, wait=False)
    until(lambda: "1 before" in third.progress().waiting, 60)
    waiting = second.progress()
    assert waiting.state == "queued" and 's "first"' in waiting.waiting
    third.stop()
    assert third.state == "stopped" and not third.progress().ranks
    assert second.wait().state == "done" and first.state == "done"
    ended = [event["time"] for event in first._launcher_events() if event["event"] == "ended"]
    assert all(rank.started > ended[0] - 1.0 for rank in second.progress().ranks)
    assert second.progress().waiting == ""
    for run in (first, second, third):
        nothing_left(run)
