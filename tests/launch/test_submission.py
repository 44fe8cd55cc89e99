"""`train_submission.py` on one and on two real ranks: what it trains, counts, refuses and leaves for the judge.

All cases of a number of ranks share one start, because starting costs more than they do.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from course.data import store
from ddl.records.jsonfiles import read_json, read_json_lines
from helpers import ROOT, on_ranks

pytestmark = pytest.mark.slow

WORKER = ROOT / "tests" / "workers" / "submission_worker.py"
OUTPUTS = {"one": lambda folder: on_ranks(1, WORKER, folder), "two": lambda folder: on_ranks(2, WORKER, folder)}


class Trained:
    """What the ranks of one case left."""

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


def test_the_graphs_of_a_file_train_as_keras_does(one, output_of):
    keras = np.load(output_of("one")[0] / "keras.npz")
    assert_same(one("plain").weights[0], [keras[name] for name in keras.files])


@pytest.mark.parametrize("case", ["plain", "whole"])
def test_two_ranks_train_as_one_with_twice_the_passes(one, two, case):
    # The weights only: each rank's statistics are of its own pictures until they are averaged.
    ours, theirs = one(case), two(case)
    assert_same(ours.weights[0][:6], theirs.weights[0][:6], 1e-3 if case == "whole" else 1e-4)
    assert_same(theirs.weights[0], theirs.weights[1], 0)
    both = np.concatenate(theirs.used, 1)
    np.testing.assert_array_equal(ours.used[0], both)
    assert ours.result["public_accuracy"] == pytest.approx(theirs.result["public_accuracy"], abs=0.05)


def test_what_is_counted_is_what_was_trained(two):
    plain, whole = two("plain").result, two("whole").result
    assert plain["samples"] == 5 * 1024
    assert whole["samples"] == 5 * 1024 + 1024  # what `prepare` saw
    assert [row["samples"] for row in plain["history"]] == [1024, 2048, 3072, 4096, 5120]
    assert plain["challenge"] == {
        "file": "0" * 64,
        "file_name": "mine.py",
        "role": "submission",
        "score_id": "s1",
        "passes": 1,
    }
    assert (plain["global_batch"], plain["world"], plain["seed"], plain["trial"]) == (1024, 2, 7, False)
    assert 0 < plain["seconds"] == plain["train_seconds"] and plain["cpu_seconds"] > 0
    assert plain["public_accuracy"] == plain["history"][-1]["test_accuracy"]


def test_the_judge_gets_logits_of_all_private_pictures_with_the_classes_names_put_back(two):
    run = two("plain").run
    logits, labels = (np.load(path, allow_pickle=False) for path in (run / "logits.npy", run.parent / "private.npy"))
    assert logits.dtype == np.float32 and logits.shape == (len(labels), 10)
    assert np.mean(logits.argmax(1) == labels) > 0.5  # it has learned, and by their true names


def test_ranks_open_the_pictures_without_private_labels_and_no_other_data(output_of):
    folder = output_of("two")[0]
    opened = json.loads((folder / "opened-2.json").read_text())
    assert {Path(path).name for path in opened if path.startswith(str(folder / "data"))} == {"challenge-small.npy"}
    assert not [path for path in opened if path.endswith(("private.npy", "cifar10.npy")) or "data_batch" in path]
    assert set(store.read(folder / "data" / "challenge-small.npy")) == {
        *("name", "form", "source", "train_images", "train_labels", "public_images", "public_labels"),
        "private_images",
    }


REFUSED = {
    "knowing": "its initial weights know the classes already",
    "company": "depend on the other images of the batch",
    "too_large_a_pass": "a ghost batch of 1024 does not divide a rank's 512",
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_ranks_refuse_leaves_no_logits(two, case):
    assert REFUSED[case] in two(case).result["refused"]
    assert not (two(case).run / "logits.npy").exists()


def test_a_second_view_of_each_picture_counts_as_a_second_sample(two):
    twice = two("twice").result
    assert (twice["samples"], twice["steps"], twice["challenge"]["passes"]) == (2048, 1, 2)


def test_a_training_that_diverges_ends_and_scores_nothing(two):
    diverging = two("diverging")
    assert diverging.result["diverged"]
    assert diverging.result["public_accuracy"] == 0.0
    assert not np.isfinite(np.load(diverging.run / "logits.npy")).all(1).any()
    notes = [event for event in read_json_lines(diverging.run / "events.jsonl") if event["event"] == "note"]
    assert any("diverged" in note["message"] for note in notes)
    assert read_json(diverging.run / "result.json")["diverged"]
