"""The launcher installed alone from a wheel, without Horovod and the course, for somebody's own scripts."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helpers import LAUNCHING, ROOT

RANK = 'import os\nprint("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])\n'
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


@pytest.mark.nightly("source_code/ddl/*", "source_code/pyproject.toml", "source_code/README.md", *LAUNCHING)
@pytest.mark.timeout(900)
def test_launcher_alone_runs_follows_fails_and_compares_without_horovod(tmp_path):
    venv, python = tmp_path / "alone", tmp_path / "alone" / "bin" / "python"

    def uv(*words):
        subprocess.run([sys.executable, "-m", "uv", *words], check=True)

    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT / "source_code")
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ddl", "ddl_launch"}
    assert "ddl/display/style.css" in names and "ddl/job/pass_environment.sh" in names
    uv("venv", "--quiet", "--python", sys.executable, venv)
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^((?:numpy|pandas|psutil|scipy)==\S+)", lock, re.MULTILINE)
    uv("pip", "install", "--quiet", "--python", python, wheel, *pins)
    # No variable of this course's environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DDL_", "PYTHON", "VIRTUAL_"))}
    env |= {"PATH": f"{venv / 'bin'}:{env['PATH']}"}

    def ddl(*words, status=0):
        done = subprocess.run([venv / "bin" / "ddl", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    # Without TensorFlow.
    (tmp_path / "rank.py").write_text(RANK)
    ddl("run", "--cluster", "torchrun", "rank.py")
    (run,) = json.loads(ddl("list", "--json"))
    assert run["state"] == "done" and Path(run["folder"]).parent == tmp_path / "runs"
    assert ddl("logs", run["id"], "--rank", "1") == "rank 1 of 2\n"
    assert "invalid choice: 'check'" in ddl("check", "1", status=2)

    uv("pip", "install", "--quiet", "--python", python, "tensorflow-cpu==2.15.1")
    (tmp_path / "train.py").write_text(TRAIN)
    assert subprocess.run([python, "-c", "import horovod"], capture_output=True, env=env).returncode == 1
    said = ddl("run", "-n", "2", "train.py")
    assert 'cluster="multi_worker"' in said and "replicas 2" in said
    failed = ddl("run", "-n", "2", "train.py", "--fail", status=1)
    assert "rank 1 of 2" in failed and "ValueError: one wrong value" in failed and "train.py" in failed
    _, *listed = json.loads(ddl("list", "--json"))
    assert [run["state"] for run in listed] == ["done", "failed"]
    assert "train" in ddl("compare", *(run["id"] for run in listed))
    assert "make setup" not in ddl("doctor")
    (tmp_path / "other.py").write_text("import horovod.tensorflow as hvd\n")
    assert "Horovod is not installed here" in ddl("run", "-n", "2", "other.py", status=2)
