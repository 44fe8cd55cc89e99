"""Reasons to end a run early; the programs that it is built into run in tests/launch."""

import queue
import signal
import threading
import time

import pytest

from ddl.job.run_options import RunOptions
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json, write_json
from ddl.start import supervisor
from helpers import until


class Recording(supervisor.Supervisor):
    """Fake without processes that records what would happen to them."""

    grace_s = 0.0

    def __init__(self, **options):
        self.happened = queue.Queue()
        super().__init__(RunOptions("x.py", **options))

    def terminate(self):
        self.happened.put("terminate")

    def kill(self):
        self.happened.put("kill")

    def diagnose(self):
        return {"found": "something"}


@pytest.fixture
def supervise(tmp_path, monkeypatch):
    """Return a function that makes a supervisor, whose signals are handled by nobody else."""
    monkeypatch.setenv("DDL_RUN_ID", "r1")
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("DDL_LAUNCHER_PIPE", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Recording
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def ended(supervised):
    return [supervised.happened.get(timeout=30) for _ in range(2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_ends_processes_and_keeps_first_reason(supervise, number):
    supervised = supervise()
    signal.raise_signal(number)
    assert ended(supervised) == ["terminate", "kill"]
    supervised.end("timeout", missing=[1])
    assert (supervised.reason, supervised.details) == (number.name, {})


def test_a_time_limit_counts_from_the_start(supervise):
    supervised = supervise(timeout_s=60)
    supervised.began = time.monotonic() - 61
    supervised.await_time_limit()
    assert ended(supervised) == ["terminate", "kill"]
    assert (supervised.reason, supervised.details) == ("timeout", {"timeout_s": 60, "found": "something"})


def test_waiting_ranks_are_recorded_until_progress(supervise, monkeypatch, tmp_path):
    folder, asked = RunFolder(tmp_path), queue.Queue()
    for rank in (0, 1):
        write_json(folder.rank(rank), {"pid": rank + 100})
        folder.stack(rank).write_text(f"Thread 1:\n  File x.py, line {rank}\n  File ddl/start/worker.py")
    monkeypatch.setenv("DDL_STALL_S", "0.06")
    monkeypatch.setattr(supervisor, "waits", lambda pid, stack: asked.put(pid) or pid == 100)
    supervised = supervise()
    supervised.watch(supervised.await_stalls, [0, 1], threading.Event())
    until(lambda: folder.stalled(1).exists())
    found = [read_json(folder.stalled(rank)) for rank in (0, 1)]
    since = found[0]["since"]  # of the last file that a rank wrote
    assert abs(since - folder.rank(1).stat().st_mtime) < 1
    assert found == [{"rank": rank, "waits": rank == 0, "since": since} for rank in (0, 1)]
    assert asked.qsize() == 4  # twice, and not again
    monkeypatch.setattr(supervisor, "waits", lambda pid, stack: False)
    folder.log(0).write_text("it goes on")
    until(lambda: not folder.stalled(1).exists())
    supervised.stopping.set()
