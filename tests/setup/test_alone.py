"""The launcher installed alone, with TensorFlow and without Horovod, for somebody's own scripts."""

import json
import os
import subprocess
import sys

import pytest

from helpers import LAUNCHING, ROOT

TRAIN = """
import json, os, sys
import tensorflow as tf
from ddl import Recorder
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
recorder = Recorder()
with strategy.scope():
    total = strategy.reduce("SUM", tf.ones([]), axis=None)
for step in range(1, 4):
    recorder.event("step", step=step, steps=3, loss=1 / step)
if "--fail" in sys.argv and task == 1:
    raise ValueError("one wrong value")
print("replicas", strategy.num_replicas_in_sync)
"""


@pytest.mark.nightly("source_code/pyproject.toml", "source_code/README.md", *LAUNCHING)
@pytest.mark.timeout(900)
def test_launcher_alone_runs_follows_fails_and_compares_without_horovod(tmp_path):
    venv, python = tmp_path / "alone", tmp_path / "alone" / "bin" / "python"
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    packages = ["tensorflow-cpu==2.15.1", ROOT / "source_code"]
    subprocess.run([*uv, "pip", "install", "--quiet", "--python", python, *packages], check=True)
    (tmp_path / "train.py").write_text(TRAIN)
    # No variable of this course's environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DDL_", "PYTHON", "VIRTUAL_"))}
    env |= {"PATH": f"{venv / 'bin'}:{env['PATH']}", "DDL_RUNS_DIR": str(tmp_path / "runs")}

    def ddl(*words, status=0):
        done = subprocess.run([venv / "bin" / "ddl", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert subprocess.run([python, "-c", "import horovod"], capture_output=True, env=env).returncode == 1
    said = ddl("run", "-n", "2", "train.py")
    assert 'cluster="multi_worker"' in said and "replicas 2" in said
    failed = ddl("run", "-n", "2", "train.py", "--fail", status=1)
    assert "rank 1 of 2" in failed and "one wrong value" in failed
    listed = json.loads(ddl("list", "--json"))
    assert [run["state"] for run in listed] == ["done", "failed"]
    assert "train" in ddl("compare", *(run["id"] for run in listed))
    assert "make setup" not in ddl("doctor")
    (tmp_path / "other.py").write_text("import horovod.tensorflow as hvd\n")
    assert "Horovod is not installed here" in ddl("run", "-n", "2", "other.py", status=2)
