"""Metrics for imbalanced classes against counting by hand and Keras."""

import numpy as np
import pytest

from course.multi_gpu.binary_metrics import figures, loss_and_accuracy


def test_figures_match_hand_counts():
    shares = {"accuracy": 0.8, "majority": 0.7, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3}
    assert figures([1, 1, 1, *[0] * 7], [0.9, 0.6, 0.2, 0.8, 0.5, *[0.1] * 5]) == pytest.approx(shares)
    nothing = {"accuracy": 0.5, "majority": 0.5, "precision": None, "recall": 0, "f1": 0}
    assert figures([1, 0], [0.1, 0.2]) == nothing


def test_loss_is_kerass_cross_entropy():
    draw = np.random.default_rng(0)
    targets = np.append((draw.random(400) < 0.1).astype(np.int32), [1, 1])
    scores = np.append(draw.random(400), [0.0, 1.0]).astype(np.float32)
    loss, accuracy = loss_and_accuracy(targets, scores)
    tf = pytest.importorskip("tensorflow")
    assert loss == pytest.approx(
        float(tf.keras.losses.BinaryCrossentropy()(targets.astype(np.float32)[:, None], scores[:, None])), rel=1e-4
    )
    assert accuracy == np.mean((scores > 0.5) == targets)
