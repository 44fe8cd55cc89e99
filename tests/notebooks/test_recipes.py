"""Code that a lesson shows in its text runs as it stands."""

import re
import subprocess
import sys

import jupytext
import pytest

from ddl import launch
from helpers import ROOT

CODE = r"`(.*?)(?:…\))?`"  # "…)" stands for arguments
KERAS = """
import numpy as np, tensorflow as tf
import horovod.tensorflow.keras as hvd
hvd.init()
"""
KERAS_TRAINED = """
model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,)), layer, tf.keras.layers.Dense(1)])
model.compile(optimizer, loss="mse")
x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
losses = model.fit(x, x.sum(1), epochs=3, verbose=0, callbacks=[climb]).history["loss"]
assert losses[-1] < losses[0]
"""


@pytest.mark.slow
def test_recipe_in_the_text_trains(tmp_path):
    cells = jupytext.read(ROOT / "lessons" / "4.Convergence.py", fmt="py:percent").cells
    (recipe,) = (cell.source for cell in cells if "recipe" in cell.metadata.get("tags", ()))
    (code,) = re.findall(r"```python\n(.*?)```", recipe, re.DOTALL)
    script = KERAS + code + KERAS_TRAINED
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


SCRIPTS = ROOT / "source_code" / "course" / "multi_gpu" / "scripts"


def test_lesson_3s_table_shows_code_of_its_recipes():
    texts = {name: (SCRIPTS / f"recipe_{name}.py").read_text() for name in ("fit", "loop", "torch")}
    cells = jupytext.read(ROOT / "lessons" / "3.Multi-GPU.py", fmt="py:percent").cells
    (table,) = (cell.source for cell in cells if "two-libraries" in cell.metadata.get("tags", ()))
    rows = [row.split("|")[2:4] for row in table.splitlines() if re.match(r"\| \d ", row)]
    assert len(rows) == 6
    for horovod, torch in rows:
        assert all(code in texts["fit"] + texts["loop"] for code in re.findall(CODE, horovod))
        assert all(code in texts["torch"] for code in re.findall(CODE, torch))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("one_device", {"workers": 1}),
        ("fit", {"workers": 2}),
        ("loop", {"workers": 2}),
        ("torch", {"workers": 2, "cluster": "torchrun"}),
    ],
)
def test_lesson_3s_recipes_learn_and_one_rank_writes(name, options, tmp_path, monkeypatch):
    if name == "torch":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    run = launch(f"recipe_{name}.py", **options)
    losses = [float(found) for found in re.findall(r"loss:? ([\d.]+)", run.logs(0))]
    assert len(losses) == 3 and losses[-1] < losses[0] - 0.1
    assert len(list(tmp_path.glob("model.weights.*"))) == 1
    assert options["workers"] == 1 or "loss" not in run.logs(1)
