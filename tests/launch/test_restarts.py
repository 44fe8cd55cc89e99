"""A training that survives: real ranks are killed, and the run goes on from its last checkpoint."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from course.training import checkpoint
from ddl import launch, runs
from ddl.follow import processes
from ddl.records.jsonfiles import read_json, read_json_lines
from helpers import ROOT, until

both = pytest.mark.parametrize("start", ["cold", "warm"], indirect=True)

# Counts 40 steps, keeps every tenth, and ends a rank where the test wants it: `ends` has the start's number and rank.
COUNTS = """
import os, signal, sys, time
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

from ddl.records.recorder import Recorder

hvd.init()
folder = Path(os.environ["DDL_RUN_DIR"])
here = f"{len((folder / 'launcher.jsonl').read_text().split('restarted'))}:{hvd.rank()}"
kept = folder / "kept"
first = int(kept.read_text()) if kept.exists() else 0
if f"{here}:first" in sys.argv:
    sys.exit("no place here")
first = int(hvd.broadcast(tf.constant(first), 0))
recorder = Recorder() if hvd.rank() == 0 else None
if recorder:
    recorder.event("start", step=first, steps=40)
for step in range(first + 1, 41):
    hvd.allreduce(tf.constant(1.0))
    if recorder:
        recorder.event("step", step=step, loss=1.0)
        if step % 10 == 0:
            kept.write_text(str(step))
    hvd.allreduce(tf.constant(1.0))  # rank 0 has written this step down
    if f"{here}:{step}" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
"""


SMALL = {"data_set": "synthetic", "train_samples": 6400, "test_samples": 100, "global_batch": 32, "steps": 60}


def counted(script, ends, **options):
    options = {"workers": 2, "max_restarts": 3, "check": False, "oversubscribe": True, "timeout_s": 150, **options}
    return launch(script(COUNTS), args=ends, **options)


@both
def test_restart_resumes_from_last_checkpoint(script, nothing_left, start, capfd):
    run = counted(script, ["1:1:25", "2:0:35", "2:1:35"])
    restart, second = run.restarts
    assert run.state == "done" and run.progress().step == 40
    assert (second.step, second.resumed_at) == (35, 30)  # both at once
    assert (restart.step, restart.resumed_at, restart.repeated) == (25, 20, 5)
    assert restart.lost_s > 0 and "rank 1 of 2" in restart.reason and "SIGKILL" in restart.reason
    assert [read_json(run.folder / f"rank-{rank}.json")["start"] for rank in (0, 1)] == [start] * 2
    shown = capfd.readouterr().out
    assert f"restart 1: {restart.reason}" in shown
    assert "5 steps repeated" in shown


def test_same_failure_at_the_same_step_is_not_restarted_again(script, nothing_left):
    run = counted(script, ["1:1:25", "2:1:25", "3:1:25"])
    assert run.state == "failed" and len(run.restarts) == 1
    assert "failed at step 25 twice" in run.failure.sentence


def test_restarted_run_ends_with_the_weights_of_an_undisturbed_run(nothing_left):
    options = dict(SMALL, workers=2, checkpoint_every=5, keep_weights=True, oversubscribe=True)
    calm = launch("train_cifar.py", **options)
    hit = launch("train_cifar.py", **options, max_restarts=3, wait=False)
    until(lambda: hit.progress().step >= 8, 90)
    hit.kill_rank(1)
    hit.wait()
    assert hit.state == "done" and hit.restarts, hit.failure
    assert all(restart.resumed_at % 5 == 0 and restart.resumed_at for restart in hit.restarts)
    before, after = (np.load(run.folder / "weights.npz") for run in (calm, hit))
    for name in before.files:
        np.testing.assert_allclose(before[name], after[name], rtol=1e-3, atol=1e-4)


def test_preempted_machine_writes_checkpoint(nothing_left):
    """`ddl run` gets SIGTERM, as on a spot instance."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, "steps": 3000}.items()]
    command = [sys.executable, "-m", "ddl.cli", "run", "--oversubscribe", "train_cifar.py", *options]
    before = {run.id for run in runs()}
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT / "source_code")})
    until(lambda: {run.id for run in runs()} - before and runs()[-1].progress().step >= 8, 90)
    run = runs()[-1]
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 1
    kept = [event for event in run.events() if event["event"] == "checkpoint"]
    assert run.state == "stopped" and [event["reason"] for event in kept] == ["time limit"]
    assert (run.folder / checkpoint.FILE).exists()


def test_killed_launcher_leaves_a_checkpoint(nothing_left):
    run = launch(
        "train_cifar.py", **SMALL, workers=2, checkpoint_every=5, max_restarts=3, oversubscribe=True, wait=False
    )
    until(lambda: run.progress().step >= 8, 90)
    pid = next(event["pid"] for event in read_json_lines(run.folder / "launcher.jsonl") if event["event"] == "launched")
    os.kill(pid, signal.SIGKILL)
    run.wait()
    until(lambda: not processes.of_run(run.id), 10)
    assert run.state == "failed" and "launcher was killed" in run.failure.sentence
    again = launch("train_cifar.py", **SMALL, workers=2, checkpoint_every=5, resume=run.id, oversubscribe=True)
    assert again.state == "done" and again.result["resumed_at"][0] >= 5
