"""All ranks of a host, with stand-ins for them; real ranks run in tests/launch."""

import os
import signal
import sys
import threading

import pytest

from ddl.launcher.run_options import RunOptions
from ddl.rank import one_host, spawn
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json_lines, write_json

ARGUMENTS = ("--m", "A=b c", "-np", "9")


class Ended:
    """A rank that has ended already."""

    def __init__(self, code):
        self._code = code

    def wait(self):
        return self._code

    def send_signal(self, number):
        pass


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs two ranks, which end with these codes; it gives what they were started with."""
    monkeypatch.setenv("DDL_RUN_ID", "r1")
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("DDL_RANKS_OF", "")
    monkeypatch.delenv("DDL_LIFELINE", raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    write_json(RunFolder(tmp_path).job, {"script": "x y.py", "args": ARGUMENTS, "processes": 2})
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    started, lock = {}, threading.Lock()

    def ranks(codes):
        def start(spawner, words, environment, stopping):
            with lock:
                started[int(environment["HOROVOD_RANK"])] = words, environment
            return Ended(codes[int(environment["HOROVOD_RANK"])])

        monkeypatch.setattr(spawn.Spawner, "start", start)
        return one_host.OneHost(RunOptions.read(tmp_path)).run(), started

    yield ranks
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def end(tmp_path):
    return read_json_lines(RunFolder(tmp_path).launcher)[-1]


def test_each_rank_gets_its_command_and_horovods_variables(run, tmp_path):
    status, started = run([0, 0])
    assert status == 0 and end(tmp_path)["state"] == "done"
    assert {words for words, _ in started.values()} == {(sys.executable, "-m", "ddl.rank", str(tmp_path))}
    for rank, (_, environment) in started.items():
        assert environment["HOROVOD_LOCAL_RANK"] == str(rank) and environment["HOROVOD_SIZE"] == "2"
        assert environment["HOROVOD_GLOO_IFACE"] == "lo" and environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "180"
        assert int(environment["HOROVOD_GLOO_RENDEZVOUS_PORT"]) and environment["DDL_RANKS_OF"] == "r1"


def test_failed_rank_fails_the_run(run, tmp_path):
    status, _ = run([3, 0])
    assert status == 1 and end(tmp_path)["state"] == "failed" and "reason" not in end(tmp_path)
