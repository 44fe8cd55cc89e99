"""The processes of a run are known by their environment."""

import os
import signal
import subprocess
import sys

import pytest

from ddl.follow import processes

RUN_ID = f"19990101-000000-{os.getpid() % 2**16:04x}"  # other tests run at the same time


@pytest.fixture
def start():
    """Return a function that starts a process with a mark, and waits until it is there."""
    started = []

    def process(mark, code="input()"):
        line = [sys.executable, "-c", f"print(flush=True); {code}"]
        environment = {**os.environ, mark: RUN_ID}
        child = subprocess.Popen(line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        started.append(child)
        return child

    yield process
    for child in started:
        child.kill()
        child.communicate()


def test_a_run_has_the_processes_that_carry_its_id(start):
    launcher, rank = start("DDL_RUN_ID"), start("DDL_RANKS_OF")
    assert processes.of_run(RUN_ID) == [launcher.pid]
    assert processes.of_run(RUN_ID, mark="DDL_RANKS_OF") == [rank.pid]
    assert processes.of_run(RUN_ID, besides={launcher.pid}) == []
    assert processes.of_run(RUN_ID[:-1]) == []


def test_a_process_that_ignores_the_request_is_killed(start):
    child = start(
        "DDL_RUN_ID",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)",
    )
    child.stdout.readline()
    processes.end(RUN_ID, grace_s=0.1)
    assert child.wait() == -signal.SIGKILL
