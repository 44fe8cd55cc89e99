"""Code that a lesson shows in its text runs as it stands."""

import re
import subprocess
import sys

import jupytext
import pytest

from helpers import ROOT

DATA = """
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
tf.distribute.MirroredStrategy = lambda made=tf.distribute.MirroredStrategy: made(["CPU:0", "CPU:1"])
x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
y = x @ np.array([1, -2, 3], np.float32)
"""
LAST = "\nassert strategy.num_replicas_in_sync == 2 and float(loss) < float(first) / 100"


@pytest.mark.slow
@pytest.mark.parametrize("lesson", ["3b.Strategies-in-Depth"])
def test_a_recipe_trains(lesson, tmp_path):
    cells = jupytext.read(ROOT / "lessons" / f"{lesson}.py", fmt="py:percent").cells
    (recipe,) = (cell.source for cell in cells if "recipe" in cell.metadata.get("tags", ()))
    (code,) = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", DATA + code + LAST], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model.weights.h5").exists()
