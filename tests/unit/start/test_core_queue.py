"""Runs that share cores take turns, and a holder that dies frees its turn."""

import os
import threading

import pytest

from ddl.start.core_queue import QUEUE, take_turn


@pytest.fixture
def queue(tmp_path, monkeypatch):
    monkeypatch.setenv(QUEUE, str(tmp_path / "new" / "queue"))


def test_runs_take_turns_and_say_whose_run_they_wait_for(queue):
    said, stopping = [], threading.Event()

    def say(text):
        said.append(text)
        if len(said) == 2:
            first.close()

    first = take_turn("ann's “long”", stopping, say)
    with take_turn("bob's", stopping, say):
        assert said == ["waiting for its turn: the cores are used by ann's “long”"] * 2
        assert take_turn("cy's", stopping, lambda text: (said.append(text), stopping.set())) is None
        assert said[-1].endswith("used by bob's")


def test_dead_holder_releases_turn(queue, tmp_path):
    child = os.fork()
    if not child:
        os.umask(0o77)
        os._exit(take_turn("dying", threading.Event(), print) is None)
    assert os.waitpid(child, 0)[1] == 0
    file = tmp_path / "new" / "queue" / "turn"
    assert file.stat().st_mode & 0o777 == 0o666 and file.parent.stat().st_mode & 0o777 == 0o755
    take_turn("next", threading.Event(), pytest.fail).close()
