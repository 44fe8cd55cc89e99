"""`train_cifar.py` on one and on two real ranks.

All cases of a number of ranks share one start, because starting costs more than they do.
"""

import numpy as np
import pytest

from course.data import Order
from course.training import timeline
from course.training.precision import instructions
from ddl import launch
from ddl.records.jsonfiles import read_json, read_json_lines
from helpers import ROOT, on_ranks

pytestmark = pytest.mark.slow("source_code/*.py", "source_code/course/training/*", "source_code/course/data/*")

SCRIPT = ROOT / "source_code" / "train_cifar.py"
WORKER = ROOT / "tests" / "workers" / "train_worker.py"
TWO = "plain noise noticed ghosts sync_bn ghost_bn lars resnet diverging target".split()
ONE = "script plain noticed_at_the_end ghosts sync_bn".split()


class Trained:
    """The ranks' records of one case."""

    def __init__(self, folder, case, ranks):
        self.folder = folder / f"{case}-{ranks}"
        self.result = read_json(folder / f"{case}-{ranks}.json")
        files = [np.load(folder / f"{case}-{ranks}-{rank}.npz") for rank in range(ranks)]
        self.used = [file["used"] for file in files]
        self.first, self.early, self.weights = (
            [[file[key] for key in file.files if key.startswith(when)] for file in files]
            for when in ("first", "early", "final")
        )

    def events(self, name):
        events = read_json_lines(self.folder / "events.jsonl")
        return [event for event in events if event["event"] == name]


OUTPUTS = {
    "two": lambda folder: on_ranks(2, WORKER, folder, *TWO),
    "one": lambda folder: on_ranks(1, WORKER, folder, *ONE),
}


@pytest.fixture(scope="module")
def two(output_of):
    return lambda case: Trained(output_of("two")[0], case, 2)


@pytest.fixture(scope="module")
def one(output_of):
    return lambda case: Trained(output_of("one")[0], case, 1)


def assert_same_weights(ours, theirs, tolerance):
    """Every weight within `tolerance` of the other, absolutely."""
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def assert_same_training(ours, theirs):
    """Two trainings that add up the same numbers in another order.

    After two steps every weight agrees to 1e-5. After all steps the distance between the two is
    under 1 % of the way that either went: by then rounding may have moved some unit of a ReLU or
    of a maximum across its kink, and gradients jump there.
    """
    assert_same_weights(ours.early[0], theirs.early[0], 1e-5)
    first, a, b = (
        np.concatenate([w.ravel() for w in weights[0]]) for weights in (ours.first, ours.weights, theirs.weights)
    )
    assert np.linalg.norm(a - b) < 0.01 * np.linalg.norm(a - first)


def test_two_ranks_train_as_one_with_twice_the_batch(one, two):
    # Float32, no batch norm, augmented, Nesterov momentum.
    ours, theirs = two("plain"), one("plain")
    assert_same_training(ours, theirs)
    assert_same_weights(*ours.weights, 0)
    # Two epochs of 6 steps of 2 × 16 samples; 8 are left over.
    expected = np.concatenate([Order(200, 32, seed=0).epoch(epoch) for epoch in (0, 1)])
    np.testing.assert_array_equal(np.concatenate(ours.used, axis=1), expected)
    np.testing.assert_array_equal(theirs.used[0], expected)
    for a, b in zip(ours.result["history"], theirs.result["history"], strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-3)
        assert a["accuracy"] == pytest.approx(b["accuracy"], abs=0.01)


def test_passes_of_one_rank_equal_ghost_batches_of_two(one, two):
    # With batch norm, recomputed statistics and the noise scale, as in recorded results.
    ours, theirs = one("ghosts"), two("ghosts")
    assert (ours.result["backward_passes_per_step"], theirs.result["backward_passes_per_step"]) == (4, 2)
    assert ours.result["ghost_batch"] == theirs.result["ghost_batch"] == 8
    # Only trained weights: the ranks' own moving statistics serve nothing here.
    for when in ("early", "weights"):
        for a, b in zip(getattr(ours, when)[0], getattr(theirs, when)[0], strict=True):
            if a.ndim > 1:
                assert np.linalg.norm(a - b) < 0.01 * np.linalg.norm(a)
    for a, b in zip(ours.result["history"], theirs.result["history"], strict=True):
        for name in ("loss", "test_loss", "clean_loss", "variance"):
            assert a[name] == pytest.approx(b[name], rel=0.02), name
        # |G|² is a small difference, so compare it with the variance of a step's mean.
        assert a["gradient_sq"] == pytest.approx(b["gradient_sq"], abs=0.02 * a["variance"] / 32)
    last = ours.result["history"][-1]
    assert {name: last[name] for name in ("clean_loss", "clean_accuracy")} == {
        name: ours.result[name] for name in ("clean_loss", "clean_accuracy")
    }


def test_distributed_evaluation_matches_a_single_process(two, monkeypatch):
    # 101 test pictures: the ranks' shards differ in size, and the last batch is filled up.
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.syspath_prepend(str(WORKER.parent))
    import tensorflow as tf
    import train_worker

    from course.data.augment import normalize
    from course.training import models

    model = models.build("cnn")
    model.set_weights(two("plain").weights[0])
    data = train_worker.small_data("small", train_samples=10)
    logits = model(normalize(tf.constant(data.test_images)), training=False)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(data.test_labels, logits)
    result = two("plain").result
    assert result["test_accuracy"] == pytest.approx(np.mean(np.argmax(logits, axis=1) == data.test_labels), abs=1e-6)
    assert result["test_loss"] == pytest.approx(float(tf.reduce_mean(loss)), rel=1e-5)


def test_noise_scale_is_recorded(two):
    assert two("noise").result["noise_scale"] > 1
    for event in two("noise").events("noise_scale"):
        assert set(event) == {"event", "time", "step", "noise_scale", "gradient_sq", "variance"}


def test_notice_to_one_rank_stops_all_and_restart_resumes(two):
    case, whole = two("noticed"), two("noise")
    # Given before the 8th step was over; it travels with the 9th.
    assert read_json_lines(case.folder.parent / "noticed-requeue") == [{"step": 9, "reason": "time limit"}]
    (checkpoint,) = case.events("checkpoint")
    assert (checkpoint["step"], checkpoint["reason"]) == (9, "time limit")
    assert "stopped after step 9 of 12" in case.events("note")[0]["message"]
    for rank in (0, 1):
        np.testing.assert_array_equal(case.used[rank], whole.used[rank][9:])
    assert_same_weights(case.weights[0], whole.weights[0], 0)
    assert [(begin["step"], begin["resumed_at"]) for begin in case.events("start")] == [(0, []), (9, [9])]
    assert case.result["resumed_at"] == [9] and whole.result["resumed_at"] == []
    assert case.result["noise_scale"] == pytest.approx(whole.result["noise_scale"])
    assert not (case.folder / "requeue").exists()
    for a, b in zip(case.result["history"], whole.result["history"], strict=True):
        figures = ("loss", "accuracy", "test_loss", "test_accuracy", "clean_loss", "clean_accuracy", "noise_scale")
        for name in ("step", "samples", *figures):
            assert a[name] == pytest.approx(b[name], rel=1e-6)


def test_notice_at_last_step_has_no_effect(one):
    case = one("noticed_at_the_end")
    assert case.result["steps"] == 12 and (case.folder / "result.json").exists()
    assert not (case.folder / "requeue").exists() and not case.events("checkpoint")


def test_script_outside_a_run_writes_nothing(one):
    folder = one("plain").folder.parent
    printed = (folder / "script.txt").read_text()
    assert "synthetic (generated), 400 training and 100 test images" in printed
    assert "held-out" in printed.splitlines()[-1]
    assert not list((folder / "script").rglob("*.json*"))


PAIR = dict(workers=2, threads=1, oversubscribe=True, recipe="batch_norm", data_set="synthetic", test_samples=100)


def test_bfloat16_ranks_exchange_float32():
    can = bool(instructions())
    precision, computed_in = ("bfloat16", "bfloat16") if can else ("auto", "float32")
    run = launch(SCRIPT, **PAIR, precision=precision, timeline=True, train_samples=400, steps=2)
    assert run.result["precision"] == computed_in and np.isfinite(run.result["test_loss"])
    (begin,) = [event for event in read_json_lines(run.folder / "events.jsonl") if event["event"] == "start"]
    assert begin["precision"] == computed_in
    sent = timeline.sent(run.folder / timeline.FILE)
    assert set(sent) == {"float32"} and sent["float32"] > 2 * 4 * run.result["parameters"]


def test_sync_batch_norm_matches_one_rank(one, two):
    assert_same_training(two("sync_bn"), one("sync_bn"))
    with pytest.raises(AssertionError):
        assert_same_training(two("ghost_bn"), one("sync_bn"))
    assert_same_weights(*two("ghost_bn").weights, 1e-6)  # an evaluation has averaged the ranks' statistics


def test_other_optimizers_train_and_targets_stop_a_run(two):
    for case in ("lars", "resnet"):
        result = two(case).result
        assert np.isfinite(result["test_loss"]) and not result["diverged"]
    result = two("target").result
    assert result["stopped_by"] == "target" and result["test_accuracy"] >= 0.05
    assert result["steps"] % 2 == 0 and result["steps"] < 54


def test_diverging_run_ends_and_is_marked(two):
    case = two("diverging")
    result = read_json(case.folder / "result.json")
    assert result["diverged"] is True and result["stopped_by"] == "diverged"
    assert result["loss"] is None and result["steps"] < 60
    assert "diverged" in case.events("note")[-1]["message"]
