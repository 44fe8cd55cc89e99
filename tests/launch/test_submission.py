"""`train_submission.py` on one and on two real ranks: what it trains, counts and refuses.

All cases of a number of ranks share one start, because starting costs more than they do.
"""

import json

import numpy as np
import pytest

from ddl.records.jsonfiles import read_json_lines
from helpers import ROOT, on_ranks

pytestmark = pytest.mark.slow

WORKER = ROOT / "tests" / "workers" / "submission_worker.py"
OUTPUTS = {"one": lambda folder: on_ranks(1, WORKER, folder), "two": lambda folder: on_ranks(2, WORKER, folder)}


class Trained:
    """The ranks' records of one case."""

    def __init__(self, folder, case, ranks):
        self.run = folder / f"{case}-{ranks}"
        self.result = json.loads((folder / f"{case}-{ranks}.json").read_text())
        files = [np.load(folder / f"{case}-{ranks}-{rank}.npz") for rank in range(ranks)]
        self.weights = [[file[name] for name in file.files if name.startswith("arr_")] for file in files]
        self.used = [file["used"] for file in files]


@pytest.fixture(scope="module")
def one(output_of):
    return lambda case: Trained(output_of("one")[0], case, 1)


@pytest.fixture(scope="module")
def two(output_of):
    return lambda case: Trained(output_of("two")[0], case, 2)


def assert_same(ours, theirs, tolerance=1e-4):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def test_a_file_trains_as_keras_does(one, output_of):
    keras = np.load(output_of("one")[0] / "keras.npz")
    assert_same(one("plain").weights[0], [keras[name] for name in keras.files])


@pytest.mark.parametrize("case", ["plain", "whole"])
def test_two_ranks_train_as_one_with_twice_the_passes(one, two, case):
    ours, theirs = one(case), two(case)
    # Only the trainable ones, because statistics differ between ranks until they are averaged.
    trainable = [place for place, weight in enumerate(theirs.weights[0]) if place not in (4, 5)]
    pick = [[weights[place] for place in trainable] for weights in (ours.weights[0], theirs.weights[0])]
    assert_same(*pick, 1e-3 if case == "whole" else 1e-4)
    assert_same(theirs.weights[0], theirs.weights[1], 0)
    np.testing.assert_array_equal(ours.used[0], np.concatenate(theirs.used, 1))
    assert ours.result["public_accuracy"] == pytest.approx(theirs.result["public_accuracy"], abs=0.05)


def test_a_pass_that_does_not_divide_a_ranks_part_is_refused(two):
    assert "1024 does not divide a rank's 512" in two("too_large_a_pass").result["refused"]


def test_a_training_that_diverges_ends_and_reaches_nothing(two):
    diverging = two("diverging")
    assert diverging.result["diverged"] and diverging.result["public_accuracy"] == 0.0
    notes = [event for event in read_json_lines(diverging.run / "events.jsonl") if event["event"] == "note"]
    assert any("diverged" in note["message"] for note in notes)
