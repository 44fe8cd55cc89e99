"""Launches that share a machine's cores: one after another, and each is told what it waits for."""

import os
import stat

import pytest

from ddl import launch
from ddl.rank.core_queue import Ticket
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
    until(lambda: "behind 1 other" in third.progress().waiting)
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


@pytest.mark.slow  # to become another user takes root
def test_another_user_reads_a_ticket_and_need_not_remove_it(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o755)
    queue = tmp_path / "queue"
    roots = Ticket(queue, 2, "root's", 2)
    assert roots.waits_for() == ""
    assert stat.S_IMODE(queue.stat().st_mode) == 0o1777
    (queue / "ticket-0-dead").write_text("{}")
    child = os.fork()
    if not child:
        try:
            os.umask(0o77)
            os.setuid(65534)
            os._exit(Ticket(queue, 1, "nobody's", 2).waits_for() != "waiting for 1 of 2 cores; used by root's")
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    roots.give_back()
