"""How good a classifier of rare things is: beside accuracy, what it finds and how often rightly.

Where 94 % of all questions are of one class, saying always the same is 94 % accurate. Precision is
the share of what was found that is right; recall, the share of what is right that was found; F1,
their harmonic mean.
"""

import math

import numpy as np
import pandas

from ddl.display.table import Shown

__all__ = [
    "Report",
    "best_threshold",
    "data_of",
    "figures",
    "loss_and_accuracy",
    "majority",
    "precision_recall",
    "report",
]

EPSILON = 1e-7  # Keras' own, which keeps it from the logarithm of 0


def loss_and_accuracy(targets, scores):
    """Return the mean cross-entropy, and the share of scores on the right side of a half.

    Parameters
    ----------
    targets : numpy.ndarray
        0 or 1, shape ``[n]``.
    scores : numpy.ndarray
        Probabilities of 1, shape ``[n]``.

    Returns
    -------
    tuple of float
    """
    targets, scores = _checked(targets, scores)
    inside = np.clip(scores.astype(np.float64), EPSILON, 1 - EPSILON)
    losses = -np.log(np.where(targets, inside, 1 - inside) + EPSILON)
    return float(losses.mean()), float(np.mean((scores > 0.5) == targets))


def majority(targets):
    """Return the accuracy of saying always what is more frequent.

    Parameters
    ----------
    targets : numpy.ndarray
        0 or 1, shape ``[n]``.
    """
    share = float(np.mean(targets))
    return max(share, 1 - share)


def figures(targets, scores, threshold=0.5):
    """Judge scores at one threshold.

    Parameters
    ----------
    targets, scores : numpy.ndarray
        As in `loss_and_accuracy`.
    threshold : float
        What scores above it is taken for a 1.

    Returns
    -------
    dict
        ``threshold``, ``accuracy``, ``majority``, ``precision``, ``recall``, ``f1``, and how many
        there are of ``true_positives``, ``false_positives``, ``false_negatives`` and
        ``true_negatives``. Precision is None where nothing was found, recall where there was
        nothing to find; F1 is then 0.
    """
    targets, scores = _checked(targets, scores)
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


def precision_recall(targets, scores, points=None):
    """Return precision and recall at every threshold that makes a difference.

    Parameters
    ----------
    targets, scores : numpy.ndarray
        As in `loss_and_accuracy`; there must be a 1 among the targets.
    points : int, optional
        At most so many thresholds, evenly spread over recall.

    Returns
    -------
    thresholds, precision, recall : numpy.ndarray
        float64, one shape ``[k]``, from the highest threshold to the lowest. What scores at or
        above ``thresholds[i]`` is taken for a 1.

    Raises
    ------
    ValueError
        If no target is 1: there is nothing to recall.
    """
    targets, scores = _checked(targets, scores)
    if not targets.any():
        raise ValueError("no target is 1, so there is nothing to recall")
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


def best_threshold(targets, scores):
    """Return the threshold with the highest F1; choose it on other data than it is judged on.

    Parameters
    ----------
    targets, scores : numpy.ndarray
        As in `precision_recall`.

    Returns
    -------
    float
        Half-way between the lowest score that it finds and the next one below.
    """
    thresholds, precision, recall = precision_recall(targets, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, EPSILON)
    best = int(np.argmax(f1))
    below = thresholds[best + 1] if best + 1 < len(thresholds) else 0.0
    return float((thresholds[best] + below) / 2)


def _checked(targets, scores):
    targets, scores = np.asarray(targets), np.asarray(scores)
    if targets.shape != scores.shape or targets.ndim != 1 or not len(targets):
        raise ValueError(f"targets {targets.shape} and scores {scores.shape} are not two lists of the same length")
    return targets.astype(bool), scores


# ---------------------------------------------------------------- runs beside each other


def report(runs):
    """Tabulate runs of ``train_text.py``, one row an arm; runs of one name are its seeds.

    Parameters
    ----------
    runs : iterable of Run or Recorded

    Returns
    -------
    Report
        A pandas DataFrame with plain values, which a notebook shows rounded. ``accuracy``,
        ``majority``, ``precision``, ``recall`` and ``f1`` are means over the seeds' test parts at
        a threshold of a half, ``f1_tuned`` at the threshold that is best on the validation part;
        ``f1_sd`` is a sample standard deviation, NaN for one seed.

    Raises
    ------
    ValueError
        If there are no such runs.
    """
    arms = {}
    for run in runs:
        if run.result is not None and "test" in run.result:
            arms.setdefault(run.name, []).append(run.result)
    if not arms:
        raise ValueError("none of these is a finished run of train_text.py")
    return Report([_row(name, results) for name, results in arms.items()])


def _row(name, results):
    def mean(read):
        values = [value for result in results if (value := read(result)) is not None]
        return float(np.mean(values)) if values else math.nan

    scores = [result["test"]["f1"] for result in results]
    first = results[0]
    return {
        "arm": name,
        "strategy": first["strategy"],
        "processes": first["ranks"],
        "replicas": first["replicas"],
        "threads": first["threads_per_rank"],
        "seeds": len(results),
        "epochs": mean(lambda result: result["epochs"]),
        **{
            key: mean(lambda result, key=key: result["test"][key])
            for key in ("accuracy", "majority", "precision", "recall", "f1")
        },
        "f1_sd": float(np.std(scores, ddof=1)) if len(scores) > 1 else math.nan,
        "f1_tuned": mean(lambda result: result["tuned"]["f1"]),
        "questions_per_s": mean(lambda result: result["images_per_s"]),
        "train_seconds": mean(lambda result: result["train_seconds"]),
        "first_step_s": mean(lambda result: result["time_to_first_step_s"]),
        "embedding": first["embedding"],
        "data": data_of(first),
    }


def data_of(result):
    """Name the data of a run: ``questions (generated), 16,000 to train on``."""
    data = result["data"]
    return f"{data['name']} ({data['form']}), {data['train_samples']:,} to train on"


class Report(Shown):
    """The table of `report`."""

    def readable(self):
        return pandas.DataFrame([_readable(row) for row in self.to_dict("records")])

    def _caption(self):
        seeds = " F1: mean ± standard deviation over the seeds." if self["seeds"].max() > 1 else ""
        return (
            f"Data: {' and '.join(dict.fromkeys(self['data']))}; figures of the test part. "
            "Majority: the accuracy of saying always the more frequent. Tuned: at the "
            f"threshold that is best on the validation part.{seeds}"
        )


def _readable(row):
    spread = "" if math.isnan(row["f1_sd"]) else f" ± {row['f1_sd']:.3f}"
    return {
        "arm": f"{row['arm']} (n={row['seeds']})",
        "processes × threads": f"{row['processes']} × {row['threads']}",
        "replicas": str(row["replicas"]),
        "accuracy, %": _cell(100 * row["accuracy"], ".1f"),
        "majority, %": _cell(100 * row["majority"], ".1f"),
        "precision, %": _cell(100 * row["precision"], ".1f"),
        "recall, %": _cell(100 * row["recall"], ".1f"),
        "F1": _cell(row["f1"], ".3f") + spread,
        "F1 tuned": _cell(row["f1_tuned"], ".3f"),
        "epochs": _cell(row["epochs"], ".4g"),
        "questions/s": _cell(row["questions_per_s"], ",.0f"),
        "train, s": _cell(row["train_seconds"], ".1f"),
        "first step, s": _cell(row["first_step_s"], ".1f"),
    }


def _cell(value, form):
    return "–" if math.isnan(value) else format(value, form)
