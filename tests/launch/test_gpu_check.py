"""The GPU check, on processor cores."""

import json
import os
import subprocess
import sys

import psutil
import pytest

import gpu_check
from helpers import ROOT, until

pytestmark = pytest.mark.slow("tools/gpu_check.py")


def checked(folder, *only, **variables):
    """Return the record of some of the check's steps."""
    check = [sys.executable, ROOT / "tools/gpu_check.py", folder / "record.json", *only]
    done = subprocess.run(check, capture_output=True, text=True, env={**os.environ, **variables})
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "record.json").read_text())


def test_steps_with_tensorflow(tmp_path):
    names = ("placement", "logical", "variants", "two ranks", "speed: cnn")
    record = checked(tmp_path, *names, TORCH_PYTHON="/bin/false")
    steps = record["steps"]
    assert record["computes_on"] == "processor cores"
    assert all(step["status"] == 0 for step in steps.values()), steps
    assert steps["logical"]["default"]["sum"] == 2
    for once, again in (("as it is", "the same again"), ("deterministic", "deterministic, again")):
        assert steps["variants"][f"cnn, {once}"]["weights"] == steps["variants"][f"cnn, {again}"]["weights"]
    assert steps["two ranks sharing"]["ranks"] == 2
    assert all(step["images_per_s"] > 0 for name, step in steps.items() if name.startswith("speed"))
    assert set(record["left_out"].values()) == {"no torch"}


def test_steps_without_tensorflow(tmp_path):
    pytest.importorskip("torch")
    record = checked(tmp_path, "torch_ddp: Gloo", "doctor", TENSORFLOW_PYTHON="/bin/false")
    assert record["left_out"] == {"doctor": "no tensorflow"}
    assert record["steps"]["torch_ddp: Gloo"]["ranks"] == 2


def test_step_beyond_its_limit_is_ended_with_its_children(tmp_path):
    check = gpu_check.Check(tmp_path / "record.json", 60)
    child = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
    check.run(
        "endless", "tensorflow", 2, ("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{child}'])")
    )
    endless = check.record["steps"]["endless"]
    assert endless["status"] == "timeout"
    child = int(endless["output"].split()[0])
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)
    check.run("wrong", "tensorflow", 20, ("-c", "raise SystemExit('what is wrong')"))
    assert check.record["steps"]["wrong"] | {"seconds": 0} == {"status": 1, "seconds": 0, "output": "what is wrong\n"}
