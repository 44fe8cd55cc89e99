"""`landscape.py` on one and on two real ranks: the same measurements of the same weights."""

from itertools import pairwise

import numpy as np
import pytest

from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json, read_json_lines, write_json
from helpers import ROOT, on_ranks

SCRIPT = ROOT / "source_code/course/convergence/scripts/landscape.py"
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
        return on_ranks(ranks, SCRIPT, "--weights", trained, *OPTIONS, DDL_RUN_DIR=str(record))

    return made


pytestmark = pytest.mark.nightly(
    "source_code/course/convergence/scripts/landscape.py",
    "source_code/course/convergence/landscape.py",
    "source_code/course/convergence/matrices.py",
)

OUTPUTS = {"one": command(1), "two": command(2)}


@pytest.fixture(scope="module")
def one(output_of):
    return RunFolder(output_of("one")[0] / "record")


@pytest.fixture(scope="module")
def two(output_of):
    return RunFolder(output_of("two")[0] / "record")


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


def test_record_names_measured_weights(two):
    result = read_json(two.result)
    assert result["run"]["id"] == TRAINED["id"] and result["run"]["name"] == "some arm"
    assert (result["clean_loss"], result["test_loss"], result["seed"]) == (0.5, 0.75, 3)
    assert result["parameters"] == sum(9 * a * b + b for a, b in pairwise(FILTERS)) + 1290
    assert result["precision"] == "float32" and result["finished"]
    start, *steps = (event for event in read_json_lines(two.events) if event["event"] in ("start", "step"))
    assert start["event"] == "start" and start["data"]["name"] == "synthetic"
    counts = [event["step"] for event in steps]
    assert counts and counts == sorted(set(counts)) and counts[-1] <= start["steps"]
