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


def majority(targets) -> float:
    """Return the accuracy of always predicting the majority class."""
    share = float(np.mean(targets))
    return max(share, 1 - share)


def figures(targets, scores, threshold: float = 0.5) -> dict:
    """Score predictions at one threshold: higher scores count as 1.

    Precision is None without positive predictions, recall without positive targets; F1 is then 0.
    """
    targets, scores = np.asarray(targets, bool), np.asarray(scores)
    found = scores > threshold
    hits, wrong = int(np.sum(found & targets)), int(np.sum(found & ~targets))
    missed, rest = int(np.sum(~found & targets)), int(np.sum(~found & ~targets))
    return {
        "threshold": float(threshold),
        "accuracy": (hits + rest) / len(targets),
        "majority": majority(targets),
        "precision": hits / (hits + wrong) if hits + wrong else None,
        "recall": hits / (hits + missed) if hits + missed else None,
        "f1": 2 * hits / max(2 * hits + wrong + missed, 1),
        "true_positives": hits,
        "false_positives": wrong,
        "false_negatives": missed,
        "true_negatives": rest,
    }


def precision_recall(targets, scores, points: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds, and precision and recall at each: float64, shape ``[k]``.

    These are all distinct thresholds in descending order, or at most `points` of them, evenly spaced in recall. Scores
    at or above a threshold count as 1.
    """
    targets, scores = np.asarray(targets, bool), np.asarray(scores)
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(ranked[1:] != ranked[:-1], True)  # of the samples that share a score
    hits, found = np.cumsum(targets[order])[last], np.flatnonzero(last) + 1
    thresholds, precision, recall = ranked[last], hits / found, hits / targets.sum()
    if points and len(recall) > points:
        wanted = np.searchsorted(recall, np.linspace(recall[0], 1, points))
        keep = np.unique(wanted)
        thresholds, precision, recall = thresholds[keep], precision[keep], recall[keep]
    return thresholds.astype(float), precision, recall


def best_threshold(targets, scores) -> float:
    """Return the threshold with the highest F1; use separate data to choose it and to score it.

    It is halfway between the lowest positive score and the next one below.
    """
    thresholds, precision, recall = precision_recall(targets, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, EPSILON)
    best = int(np.argmax(f1))
    below = thresholds[best + 1] if best + 1 < len(thresholds) else 0.0
    return float((thresholds[best] + below) / 2)
