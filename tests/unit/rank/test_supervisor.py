"""Reasons to end a run early; the programs that it is built into run in tests/launch."""

import os
import queue
import signal
import threading
import time
from types import SimpleNamespace

import psutil
import pytest

from ddl.rank import supervisor
from ddl.records.folder import STACK_SIGNAL, RunFolder
from ddl.records.jsonfiles import read_json, write_json
from helpers import until

INSIDE = "File /env/horovod/ops.py, line 1 in allreduce\nFile /course/script.py, line 2 in main"


class Recording(supervisor.Supervisor):
    """Has no processes, and says what would happen to them."""

    grace_s = 0.0

    def __init__(self):
        self.happened = queue.Queue()
        super().__init__()

    def terminate(self):
        self.happened.put("terminate")

    def kill(self):
        self.happened.put("kill")

    def has_exited(self, rank):
        return rank == 2

    def diagnose(self, reason):
        return {"found": reason}


@pytest.fixture
def supervise(tmp_path, monkeypatch):
    """Return a function that makes a supervisor, whose signals are handled by nobody else."""
    monkeypatch.setenv("DDL_RUN_ID", "r1")
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    monkeypatch.delenv("DDL_LIFELINE", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Recording
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def ended(supervised):
    return [supervised.happened.get(timeout=30) for _ in range(2)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_ends_the_processes_and_the_first_reason_counts(supervise, number):
    supervised = supervise()
    signal.raise_signal(number)
    assert ended(supervised) == ["terminate", "kill"]
    supervised.end("absent", missing=[1])
    assert (supervised.reason, supervised.details) == (number.name, {})


def test_a_time_limit_counts_from_the_start(supervise):
    supervised = supervise()
    supervised.started = time.time() - 61
    supervised.await_time_limit(60)
    assert ended(supervised) == ["terminate", "kill"]
    assert (supervised.reason, supervised.details) == ("timeout", {"timeout_s": 60, "found": "timeout"})


def test_ranks_that_never_joined_their_cluster_are_named(supervise, monkeypatch, tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.job, {"cluster": "multi_worker", "workers": 3, "parameter_servers": 0})
    monkeypatch.setattr(supervisor.cluster, "first_absent", lambda size: [1, 2])
    supervised = supervise()
    supervised.await_cluster(threading.Event())
    assert ended(supervised) == ["terminate", "kill"]
    assert (supervised.reason, supervised.details) == ("absent", {"missing": [1, 2], "gone": [2], "found": "absent"})


def test_who_waits_is_recorded_when_nothing_new_comes_and_forgotten_when_it_does(supervise, monkeypatch, tmp_path):
    folder, asked = RunFolder(tmp_path), queue.Queue()
    for rank in (0, 1):
        write_json(folder.rank(rank), {"pid": rank})
        folder.stack(rank).write_text(f"Thread 1:\n  File x.py, line {rank}\n  File ddl/rank/worker.py")
    monkeypatch.setenv("DDL_STALL_S", "0.06")
    monkeypatch.setattr(supervisor, "waits", lambda pid, stack: asked.put(pid) or pid == 0)
    supervised = supervise()
    supervised.watch(supervised.await_stalls, [0, 1], threading.Event())
    until(lambda: folder.stalled(1).exists())
    found = [read_json(folder.stalled(rank)) for rank in (0, 1)]
    assert found == [{"rank": rank, "waits": rank == 0, "quiet_s": 0.06} for rank in (0, 1)]
    assert asked.qsize() == 4  # twice, and not again
    monkeypatch.setattr(supervisor, "waits", lambda pid, stack: False)
    folder.log(0).write_text("it goes on")
    until(lambda: not folder.stalled(1).exists())
    supervised.stopping.set()


def test_a_process_that_would_die_of_the_signal_is_not_sent_it():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    assert supervisor._handles(os.getpid(), signal.SIGUSR1) and not supervisor._handles(os.getpid(), STACK_SIGNAL)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "used_s, stack, answer",
    [(0.01, INSIDE, True), (0.01, INSIDE.split("\n")[1], False), (0.45, INSIDE, False), (None, INSIDE, False)],
)
def test_a_rank_waits_that_is_idle_inside_horovod(monkeypatch, used_s, stack, answer):
    sent = []

    class Rank:
        def __init__(self, pid):
            if used_s is None:
                raise psutil.NoSuchProcess(pid)
            self.used_s = iter((7.0, 7.0 + used_s))

        def send_signal(self, number):
            sent.append(number)

        def cpu_times(self):
            return SimpleNamespace(user=next(self.used_s), system=1.0)

    monkeypatch.setattr(psutil, "Process", Rank)
    monkeypatch.setattr(supervisor, "_handles", lambda pid, number: number == STACK_SIGNAL)
    monkeypatch.setattr(supervisor, "is_stopped", lambda pid: False)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(supervisor, "stack_of", lambda path: stack)
    assert supervisor.waits(4711, "stack-0.txt") is answer
    assert sent == ([] if used_s is None else [STACK_SIGNAL])
