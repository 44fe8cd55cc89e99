"""Metrics for imbalanced classes against counting by hand, and their table."""

import numpy as np
import pytest

from course.multi_gpu import classification
from course.multi_gpu.binary_metrics import figures, loss_and_accuracy, majority, precision_recall
from course.shared.recorded import Recorded

RNG = np.random.default_rng(0)
TARGETS = (RNG.random(400) < 0.1).astype(np.int32)
SCORES = np.round(np.clip(0.3 * TARGETS + 0.6 * RNG.random(400), 0, 1), 2)  # with ties


def test_binary_metrics_match_hand_counts():
    shares = {"threshold": 0.5, "accuracy": 0.8, "majority": 0.7, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    counts = {"true_positives": 2, "false_positives": 1, "false_negatives": 1, "true_negatives": 6}
    assert figures([1, 1, 1, *[0] * 7], [0.9, 0.6, 0.2, 0.8, 0.5, *[0.1] * 5]) == shares | counts


def test_loss_is_kerass_cross_entropy():
    scores = np.append(SCORES, [0.0, 1.0]).astype(np.float32)
    targets = np.append(TARGETS, [1, 1])
    loss, accuracy = loss_and_accuracy(targets, scores)
    tf = pytest.importorskip("tensorflow")
    assert loss == pytest.approx(
        float(tf.keras.losses.BinaryCrossentropy()(targets.astype(np.float32)[:, None], scores[:, None])), rel=1e-4
    )
    assert accuracy == np.mean((scores > 0.5) == targets)


def test_curve_is_what_each_threshold_gives():
    thresholds, precision, recall = precision_recall(TARGETS, SCORES)
    assert thresholds.tolist() == sorted(set(SCORES.tolist()), reverse=True)
    for threshold, p, r in zip(thresholds, precision, recall):
        judged = figures(TARGETS, SCORES, threshold - 1e-9)
        assert (p, r) == pytest.approx((judged["precision"], judged["recall"]))
    assert recall[-1] == 1 and precision[-1] == TARGETS.mean()
    # A thinned curve is part of the whole and keeps its ends.
    whole = np.stack((thresholds, precision, recall), axis=1).tolist()
    few = np.stack(precision_recall(TARGETS, SCORES, points=8), axis=1).tolist()
    assert 5 <= len(few) <= 8 and all(row in whole for row in few)
    assert few[0] == whole[0] and few[-1][2] == 1


def run(name, shift, seed=0):
    scores = np.clip(SCORES + shift * TARGETS, 0, 1)
    result = {"name": name, "strategy": "single", "embedding": "own", "seed": seed, "ranks": 1, "replicas": 2}
    result |= {"threads_per_rank": 2, "epochs": 3.0, "images_per_s": 1000.0, "train_seconds": 2.0}
    result |= {"time_to_first_step_s": 6.0, "test": figures(TARGETS, scores), "tuned": figures(TARGETS, scores, 0.4)}
    result["data"] = {"name": "questions", "form": "generated", "train_samples": 4000, "unit": "questions"}
    return Recorded(result)


RUNS = [run("a", 0.1, seed=0), run("a", 0.2, seed=1), run("b", 0.0)]


def test_report_has_a_row_per_arm_with_baseline():
    table = classification.report(RUNS)
    assert table["arm"].tolist() == ["a", "b"] and table["seeds"].tolist() == [2, 1]
    scores = [each.result["test"]["f1"] for each in RUNS[:2]]
    assert table["f1"][0] == pytest.approx(np.mean(scores))
    assert table["f1_sd"][0] == pytest.approx(np.std(scores, ddof=1))
    assert np.isnan(table["f1_sd"][1])
    assert table["majority"][0] == majority(TARGETS)
    shown = repr(table)
    assert f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1):.3f}" in shown
    assert "questions (generated), 4,000 questions" in shown and "1 × 2" in shown
