"""A training that survives: real ranks are killed, and the run goes on from its last checkpoint."""

import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from course import fault_injection
from course.training import checkpoint
from ddl import launch, runs
from ddl.launcher import processes
from ddl.records.jsonfiles import read_json, read_json_lines
from helpers import ROOT, until

both = pytest.mark.parametrize("start", [pytest.param("cold", marks=pytest.mark.slow), "warm"], indirect=True)

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
    assert f"restart 1, because {restart.reason}" in shown
    assert "restart 1 resumed at step 20: 5 steps repeated" in shown


def test_same_failure_at_the_same_step_is_not_restarted_again(script, nothing_left):
    run = counted(script, ["1:1:25", "2:1:25", "3:1:25"])
    assert run.state == "failed" and len(run.restarts) == 1
    assert "failed at step 25 twice for this reason, so it was not restarted again" in run.failure.sentence


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_killed_launcher_leaves_a_checkpoint_and_no_process(nothing_left):
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


@pytest.mark.slow
def test_a_rank_is_killed_at_a_step_and_its_cost_is_read(nothing_left):
    run = launch("train_cifar.py", **SMALL | {"steps": 300}, checkpoint_every=1, max_restarts=2, wait=False)
    assert fault_injection.kill_at(run, rank=1, step=20) is run
    cost = fault_injection.costs([run]).iloc[0]
    assert run.state == "done" and len(run.restarts) == 1
    assert cost["killed at step"] >= 20 and cost["steps twice"] <= 2
    assert 0 < cost["lost_s"] and 0 < cost["step_s"] < 5 and 0 <= cost["checkpoint_s"] < cost["step_s"]


POWER_CUT = """
import os, sys, types
import numpy as np
sys.modules["course.training.horovod_utils"] = types.SimpleNamespace(average_statistics=None)  # TensorFlow's import is slow
os.urandom = bytes  # one name for the file that is being written
from course.training import checkpoint
checkpoint.save([np.full((2, 3), 3.0, np.float32)], {"step": 3}, {})
"""


@pytest.mark.slow
def test_power_cut_leaves_complete_checkpoint(tmp_path, monkeypatch):
    """Killed at each call in turn that touches one of its files, a save leaves the new checkpoint or the one before."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed (Debian: apt-get install strace)")
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    files = (f".{checkpoint.NEW}.00000000.part", checkpoint.NEW, checkpoint.FILE, checkpoint.BEFORE)
    paths = [word for name in files for word in ("-P", tmp_path / name)]
    found = []
    for call in range(1, 200):
        for step in (1, 2):
            checkpoint.save([np.full((2, 3), float(step), np.float32)], {"step": step}, {})
        kill = ["-e", f"inject=all:signal=KILL:when={call}"]
        command = ["strace", "-f", "-o", os.devnull, *paths, *kill, sys.executable, "-c", POWER_CUT]
        ended = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT / "source_code")}, capture_output=True, text=True
        )
        path, other = checkpoint._left_by_this_run(), [tf.Variable(tf.zeros([2, 3]))]
        found.append(checkpoint.restore(path, other, {})["step"])
        assert other[0].numpy().tolist() == [[found[-1]] * 3] * 2
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".part")]
        if ended.returncode == 0:
            break
        assert ended.returncode in (137, -signal.SIGKILL), ended.stderr
    assert found[0] == 2 and found[-1] == 3 and found == sorted(found) and len(found) > 10
