"""Launches that share a machine's cores: one after another, and each is told what it waits for."""

from ddl import launch
from ddl.records.jsonfiles import read_json_lines
from helpers import until

LASTS = """
    import pathlib, sys, time
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.1)
"""


def test_queued_runs_take_turns(script, monkeypatch, nothing_left, tmp_path):
    monkeypatch.setenv("DDL_QUEUE", str(tmp_path / "queue"))
    path, end = script(LASTS), tmp_path / "end"

    def start(name):
        return launch(path, name=name, args=[end], oversubscribe=True, wait=False)

    first = start("first")
    until(lambda: first.progress().ranks)
    second, third = start("second"), start("third")
    for run in (second, third):
        until(lambda run=run: run.progress().waiting)
        assert run.state == "queued" and run.progress().waiting.endswith('s "first"')
    third.stop()
    assert third.state == "stopped" and not third.progress().ranks
    end.touch()
    assert second.wait().state == "done" and first.state == "done"
    exits = [
        event["time"] for event in read_json_lines(first.folder / "launcher.jsonl") if event["event"] == "rank_exit"
    ]
    assert len(exits) == 2 and all(rank.started > max(exits) for rank in second.progress().ranks)
    assert second.progress().waiting == ""
