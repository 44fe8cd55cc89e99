"""`landscape.py` on one and on two real ranks: the same measurements of the same weights."""

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from helpers import ROOT

pytest.importorskip("tensorflow")
pytest.importorskip("horovod.tensorflow")

from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json, read_json_lines, write_json

SCRIPT = ROOT / "source_code" / "landscape.py"
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT / "source_code"),
    "TF_CPP_MIN_LOG_LEVEL": "2",
    **dict.fromkeys(("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
}
ENVIRONMENT.pop("DDL_RUN_DIR", None)
FILTERS = (3, 32, 64, 128, 128)
SMALL = "--samples 24 --chunk 8 --iterations 3 --eigenvalues 1 --tolerance 0 --probes 2 --directions 1 --points 3"
OPTIONS = [*SMALL.split(), "--noise-samples", "48", "--ghost-batch", "4"]
TRAINED = {
    "id": "20260101-000000-abcd",
    "name": "some arm",
    "model": "cnn",
    "recipe": "base",
    "seed": 3,
    "global_batch": 64,
    "data": {"name": "synthetic", "form": "generated", "train_samples": 64},
    "config": {"no_augment": False},
    "clean_loss": 0.5,
    "test_loss": 0.75,
}


def keep(folder, scale=1.0, **fields):
    """Leave in a folder what a training with --keep-weights does: weights of the CNN without norm."""
    generator = np.random.default_rng(0)
    shapes = [shape for a, b in pairwise(FILTERS) for shape in ((3, 3, a, b), (b,))] + [(128, 10), (10,)]
    drawn = [scale * generator.normal(scale=np.sqrt(2 / np.prod(shape[:-1])), size=shape) for shape in shapes]
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(RunFolder(folder).weights, *drawn)
    write_json(RunFolder(folder).result, TRAINED | fields)
    return folder


def command(ranks):
    """Return a function from a folder to the command that measures there."""

    def made(folder):
        trained, record = keep(folder / "trained"), folder / "record"
        record.mkdir()
        launcher = [Path(sys.executable).with_name("horovodrun"), "--gloo", "-np", ranks] if ranks > 1 else []
        words = [*launcher, sys.executable, SCRIPT, "--weights", trained, *OPTIONS]
        return [str(word) for word in words], {**ENVIRONMENT, "DDL_RUN_DIR": str(record)}

    return made


BESIDE = {"one": command(1), "two": command(2)}


@pytest.fixture(scope="module")
def one(beside):
    return RunFolder(beside("one")[0] / "record")


@pytest.fixture(scope="module")
def two(beside):
    return RunFolder(beside("two")[0] / "record")


def test_two_ranks_measure_what_one_does(one, two):
    one, two = (read_json(folder.result) for folder in (one, two))
    assert (one["ranks"], two["ranks"]) == (1, 2)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    for name, keys in {
        "eigenvalue": ("eigenvalues", "residuals", "lowest"),
        "invariant": ("eigenvalues", "residuals"),
        "trace": ("mean", "error"),
        "noise": ("noise_scale", "noise_scale_error", "gradient_sq", "variance"),
    }.items():
        for key in keys:
            assert two[name][key] == pytest.approx(one[name][key], rel=1e-3), (name, key)
    np.testing.assert_allclose(two["slices"]["losses"], one["slices"]["losses"], rtol=1e-4)
    assert one["slices"]["distances"] == [-1, 0, 1]
    assert one["slices"]["losses"][0][1] == pytest.approx(one["loss"])
    assert one["noise"]["ghost_batches"] == 12 and one["noise"]["augmented"]
    assert set(one["seconds"]) == {"eigenvalue", "invariant", "trace", "noise", "slices"}


def test_the_record_says_whose_weights_were_measured(two):
    result = read_json(two.result)
    assert result["run"]["id"] == TRAINED["id"] and result["run"]["name"] == "some arm"
    assert (result["clean_loss"], result["test_loss"], result["seed"]) == (0.5, 0.75, 3)
    assert result["parameters"] == sum(9 * a * b + b for a, b in pairwise(FILTERS)) + 1290


def test_a_view_can_follow_it(one, two):
    for folder in (one, two):
        start, *steps = (event for event in read_json_lines(folder.events) if event["event"] in ("start", "step"))
        assert start["event"] == "start" and start["data"]["name"] == "synthetic"
        counts = [event["step"] for event in steps]
        assert counts and counts == sorted(set(counts)) and counts[-1] <= start["steps"]


def complaint(*words):
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, words)], env=ENVIRONMENT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode and "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_weights_that_can_not_be_used_are_refused(tmp_path):
    assert "no weights of a run with --keep-weights: looked for" in complaint("--weights", tmp_path / "nowhere")
    other = keep(tmp_path / "other", recipe="batch_norm")
    assert "are not those of a 'cnn' with the norm of its recipe: 10 arrays" in complaint("--weights", other)
    diverged = keep(tmp_path / "diverged", scale=np.nan)
    assert "is not a finite number: the run diverged" in complaint("--weights", diverged, *OPTIONS)
    damaged = keep(tmp_path / "damaged")
    RunFolder(damaged).weights.write_bytes(b"PK no zip")
    assert "is damaged, or holds no weights" in complaint("--weights", damaged)
    RunFolder(damaged).result.unlink()
    assert "no result.json of train_cifar.py" in complaint("--weights", damaged)
