"""Launches that share a machine's cores: one after another, and each is told what it waits for."""

import pytest

from ddl import launch
from ddl.records.jsonfiles import read_json_lines
from helpers import until

LASTS = """
    import pathlib, sys, time
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.1)
"""


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_QUEUE", str(tmp_path / "queue"))


def test_two_of_a_class_run_in_turn_and_one_that_waits_can_be_stopped(script, queue, nothing_left, tmp_path):
    path, end = script(LASTS), tmp_path / "end"

    def start(name):
        return launch(path, name=name, args=[end], oversubscribe=True, wait=False)

    first = start("first")
    until(lambda: first.progress().ranks)
    second = start("second")
    until(lambda: second.progress().waiting)
    third = start("third")
    until(lambda: "1 before" in third.progress().waiting)
    waiting = second.progress()
    assert waiting.state == "queued" and 's "first"' in waiting.waiting
    third.stop()
    assert third.state == "stopped" and not third.progress().ranks
    end.touch()
    assert second.wait().state == "done" and first.state == "done"
    exits = [
        event["time"] for event in read_json_lines(first.folder / "launcher.jsonl") if event["event"] == "rank_exit"
    ]
    assert len(exits) == 2 and all(rank.started > max(exits) for rank in second.progress().ranks)
    assert second.progress().waiting == ""
    for run in (first, second, third):
        nothing_left(run)
