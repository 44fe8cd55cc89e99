"""The launcher installed alone from a wheel, without Horovod and the course, for somebody's own scripts and tests."""

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
TENSORFLOW = """
import json, os, sys
import tensorflow as tf
from ddl import Recorder
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
with strategy.scope():
    total = float(strategy.reduce("SUM", tf.ones([]), axis=None))
"""
TORCH = """
import sys
import torch
import torch.distributed as dist
from ddl import Recorder
dist.init_process_group("gloo")
rank, ones = dist.get_rank(), torch.ones([])
dist.all_reduce(ones)
total = float(ones)
"""
REST = """
for step in range(1, 4):
    Recorder().event("step", step=step, steps=3, loss=1 / step) if rank == 0 else None
    Recorder().checksums(step, {"weights": [step, rank]})
if "--fail" in sys.argv and rank == 1:
    raise ValueError("one wrong value")
print("total", total)
"""
# These ranks need neither library.
TESTS = """
import os, time
import pytest
pytestmark = pytest.mark.ranks(2, cluster="torchrun", timeout_s=20)

@pytest.fixture(params=["a"])
def rank(request):
    return int(os.environ["RANK"])

def test_right(rank):
    assert rank in (0, 1)

def test_wrong(rank):
    assert rank == 0

def test_hangs(rank):
    time.sleep(600 * rank)

def test_crashes(rank):
    os.abort() if rank else None
"""
LIBRARIES = {
    "tensorflow": ("tensorflow-cpu==2.15.1", TENSORFLOW, "multi_worker"),
    "torch": (re.search(r"torch==[\d.]+", (ROOT / "pyproject.toml").read_text())[0], TORCH, "torchrun"),
}

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "ddl")
shell.run_cell("%%ranks 2 --oversubscribe\\nimport os\\ntwice = 2 * int(os.environ['RANK'])")
shell.run_cell("%%ranks\\ntwice + 1")
shell.run_line_magic("ranks", "pull twice")
print(shell.user_ns["twice"])
shell.run_line_magic("ranks", "stop")
"""


@pytest.mark.nightly("source_code/ddl/*", "source_code/pyproject.toml", "source_code/README.md", *LAUNCHING)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("library", LIBRARIES)
def test_launcher_alone_runs_follows_fails_compares_and_tests_without_horovod(library, tmp_path):
    package, train, cluster = LIBRARIES[library]
    venv, python = tmp_path / "alone", tmp_path / "alone" / "bin" / "python"

    def uv(*words):
        subprocess.run([sys.executable, "-m", "uv", *words], check=True)

    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path, ROOT / "source_code")
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ddl", "ddl_launch"}
    assert "ddl/display/style.css" in names and "ddl/job/pass_environment.sh" in names
    uv("venv", "--quiet", "--seed", "--python", sys.executable, venv)
    lock = (ROOT / "requirements.lock").read_text()
    pins = re.findall(r"^((?:numpy|pandas|psutil|scipy)==\S+)", lock, re.MULTILINE)
    uv("pip", "install", "--quiet", "--python", python, wheel, *pins)
    (tmp_path / "test_own.py").write_text(TESTS)
    # No variable of this course's environment.
    env = {name: value for name, value in os.environ.items() if not name.startswith(("DDL_", "PYTHON", "VIRTUAL_"))}
    env |= {"PATH": f"{venv / 'bin'}:{env['PATH']}"}

    def ddl(*words, status=0):
        done = subprocess.run([venv / "bin" / "ddl", *words], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    # Without any library.
    (tmp_path / "rank.py").write_text(RANK)
    ddl("run", "--cluster", "torchrun", "rank.py")
    (run,) = json.loads(ddl("list", "--json"))
    assert run["state"] == "done" and Path(run["folder"]).parent == tmp_path / "runs"
    assert ddl("logs", run["id"], "--rank", "1") == "rank 1 of 2\n"
    assert "invalid choice: 'check'" in ddl("check", "1", status=2)

    # By pip, whose settings say where PyTorch's wheels for CPUs are.
    subprocess.run([python, "-m", "pip", "install", "--quiet", package, "pytest"], check=True)
    (tmp_path / "train.py").write_text(train + REST)
    assert subprocess.run([python, "-c", "import horovod"], capture_output=True, env=env).returncode == 1
    said = ddl("run", "-n", "2", "train.py")
    assert f'cluster="{cluster}"' in said and "total 2.0" in said
    failed = ddl("run", "-n", "2", "train.py", "--fail", status=1)
    assert "rank 1 of 2" in failed and "ValueError: one wrong value" in failed and "train.py" in failed
    _, *listed = json.loads(ddl("list", "--json"))
    assert [run["state"] for run in listed] == ["done", "failed"]
    assert "train" in ddl("compare", *(run["id"] for run in listed))
    assert "step 1, rank 1, weights" in ddl("compare", "--ranks", listed[0]["id"], status=1)
    tested = subprocess.run([python, "-m", "pytest"], cwd=tmp_path, env=env, capture_output=True, text=True).stdout
    assert "3 failed, 1 passed" in tested, tested
    for word in ("assert 1 == 0", "was killed by SIGABRT", "time limit of 20 s"):
        assert word in tested, tested
    assert "make setup" not in ddl("doctor")
    (tmp_path / "other.py").write_text("import horovod.tensorflow as hvd\n")
    assert "Horovod is not installed here" in ddl("run", "-n", "2", "other.py", status=2)

    uv("pip", "install", "--quiet", "--python", python, "ipython")
    cells = subprocess.run([python, "-c", CELLS], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert "rank 0:\n1\nrank 1:\n3\n[0, 2]" in cells.stdout, cells.stdout + cells.stderr
