"""The GPU check's measurements, on processor cores."""

import json
import subprocess
import sys

import pytest

from helpers import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["bandwidth", "memory", "images"])
def test_step_prints_its_numbers(name):
    pytest.importorskip("torch")
    step = [sys.executable, ROOT / "tools/gpu_check.py", "--step", name]
    done = subprocess.run(step, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])
