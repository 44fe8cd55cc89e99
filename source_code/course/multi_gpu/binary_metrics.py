"""Metrics for imbalanced classes: accuracy, precision, recall and F1."""

import numpy as np

EPSILON = 1e-7  # Keras' own, which avoids the logarithm of 0


def loss_and_accuracy(targets, scores) -> tuple[float, float]:
    """Return the mean cross-entropy, and the share of scores on the correct side of 0.5.

    `targets` are 0 or 1, shape ``[n]``; `scores` are probabilities of 1, shape ``[n]``.
    """
    targets, scores = np.asarray(targets, bool), np.asarray(scores)
    inside = np.clip(scores.astype(np.float64), EPSILON, 1 - EPSILON)
    losses = -np.log(np.where(targets, inside, 1 - inside) + EPSILON)
    return float(losses.mean()), float(np.mean((scores > 0.5) == targets))


def figures(targets, scores) -> dict:
    """Score predictions at a threshold of one half; `majority` is the accuracy of always giving the majority class.

    Precision is None without positive predictions, recall without positive targets; F1 is then 0.
    """
    targets, found = np.asarray(targets, bool), np.asarray(scores) > 0.5
    hits, said, true = int(np.sum(found & targets)), int(found.sum()), int(targets.sum())
    return {
        "accuracy": float(np.mean(found == targets)),
        "majority": max(true, len(targets) - true) / len(targets),
        "precision": hits / said if said else None,
        "recall": hits / true if true else None,
        "f1": 2 * hits / max(said + true, 1),
    }
