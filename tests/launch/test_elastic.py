"""Horovod's elastic runs, for real: ranks come, are killed and go, and the run goes on."""

import math

import pytest

from ddl import launch
from ddl.records.jsonfiles import read_json_lines
from helpers import LAUNCHING, until

# Each step waits, so that there is time for what the tests do meanwhile.
LOOP = {"data_set": "synthetic", "train_samples": 960, "test_samples": 100, "commit_every": 5, "pause_s": 0.1}
ONE, TWO = "echo localhost:1\n", "echo localhost:1\necho 127.0.0.1:1\n"


def discover(run, text):
    """Change the discovery script of a run."""
    new = run.folder / "new.sh"
    new.write_text(f"#!/bin/sh\n{text}")
    new.chmod(0o755)
    new.rename(run.folder / "discover_hosts.sh")  # at once: Horovod may call it at any time


def start(hosts=TWO, **options):
    """Start the course's loop on these hosts."""
    options = {"workers": 2, "steps": 150, **LOOP, **options}
    run = launch("elastic_loop.py", elastic=True, oversubscribe=True, timeout_s=400, wait=False, check=False, **options)
    discover(run, hosts)  # while the supervisor is still importing
    return run


def sizes(run):
    """The sizes of the worlds that a run has had so far."""
    return [event["ranks"] for event in read_json_lines(run.folder / "launcher.jsonl") if event["event"] == "ranks"]


def test_elastic_run_grows_with_its_discovery_script(nothing_left, capfd):
    run = start(ONE)
    until(lambda: run.progress().step >= 3, 90)
    assert run.progress().world == 1
    discover(run, TWO)
    run.wait()
    assert run.state == "done" and sizes(run) == [1, 2], run.failure
    assert run.progress().step == 150 and run.progress().world == 2 and len(run.progress().ranks) == 2
    (first, alone), (later, both) = run.result["worlds"]
    assert (first, alone, both) == (0, 1, 2) and later % 5 == 0 and later > 0
    assert any("it grew from 1 to 2 ranks" in note for note in run.progress().notes)
    assert "it grew from 1 to 2 ranks" in capfd.readouterr().out


NIGHTLY = pytest.mark.nightly(*LAUNCHING)


@pytest.mark.parametrize("rank", [pytest.param(0, marks=NIGHTLY), 1])
def test_elastic_run_replaces_a_killed_rank(rank, nothing_left):
    run = start(steps=60)
    until(lambda: run.progress().step >= 12, 90)
    run.kill_rank(rank)
    run.wait()
    assert run.state == "done" and run.progress().step == 60, run.failure
    assert sizes(run) == [2, 1, 2] and run.result["ranks"] == 2 and math.isfinite(run.result["test_loss"])
    assert all(first % 5 == 0 for first, _ in run.result["worlds"])


@NIGHTLY
def test_elastic_run_shrinks_when_a_host_is_removed(nothing_left):
    run = start()
    until(lambda: run.progress().step >= 12, 90)
    discover(run, ONE)
    until(lambda: run.progress().world == 1, 60)
    discover(run, "echo localhost:one\n")
    until(lambda: any("must print lines like localhost:1" in note for note in run.progress().notes), 60)
    discover(run, "echo 127.0.0.1:1\n")
    until(lambda: any("drops localhost" in note for note in run.progress().notes), 60)
    discover(run, ONE)
    run.wait()
    assert run.state == "done" and run.progress().step == 150 and sizes(run) == [2, 1], run.failure
    assert run.failure is None and not any("hosts are unchanged" in note for note in run.progress().notes)


def test_elastic_run_ends_if_all_ranks_raise(script, nothing_left):
    failing = script("import horovod.tensorflow as hvd\nhvd.init()\nraise ValueError(f'rank {hvd.rank()}')\n")
    run = launch(failing, elastic=True, oversubscribe=True, timeout_s=100, check=False)
    assert run.state == "failed" and "raised ValueError" in run.failure.sentence


@pytest.mark.parametrize(
    "text, problem",
    [
        ("echo host1:2", "must print lines like localhost:1 or 127.0.0.1:1, got 'host1:2'"),
        ("echo no hosts today >&2; exit 3", "exit status 3. no hosts today"),
    ],
)
def test_wrong_discovery_script_fails_the_run(text, problem, nothing_left):
    run = start(text)
    run.wait()
    assert run.state == "failed" and not run.progress().ranks
    assert run.failure.sentence.startswith("the launcher failed before any rank ran: the discovery script ")
    assert "discover_hosts.sh" in run.failure.sentence and problem in run.failure.sentence
