"""The judge: logits of the private pictures against their labels, which only this side has."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddl import data
from ddl.challenge.rules import GLOBAL_BATCH
from ddl.errors import CourseError
from ddl.records.jsonfiles import DamagedFile, read_json, write_json

__all__ = ["Unjudged", "accuracy", "judge", "labels_of"]

CLASSES = 10
HEADER_BYTES = 4096  # more than an .npy file of two dimensions begins with
RESULT = {"samples": int, "seconds": float, "global_batch": int, "world": int, "seed": int, "challenge": dict}


class Unjudged(CourseError):
    """A run ended without what a judge needs; it counts as a crash."""


def labels_of(name: str, samples: int | None = None) -> np.ndarray:
    """Return the labels of the private pictures, ``[n]``: all test pictures of a data set, or so many."""
    return data.load(name, test_samples=samples).test_labels


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows whose largest logit is the label's; a row with a value that is not finite is wrong."""
    right = np.isfinite(logits).all(axis=1) & (logits.argmax(axis=1) == labels)
    return float(right.mean())


def judge(folder: Path, labels: np.ndarray, expected: Mapping[str, Any]) -> tuple[float, dict]:
    """Judge a run that has ended: return its private accuracy and its result; ``judged.json`` gets the first.

    Parameters
    ----------
    folder
        Of the run, with ``result.json`` and ``logits.npy``.
    expected
        What the result has to say of the run: ``world``, ``seed``, ``trial``, and ``file``, the SHA-256 of its bytes.

    Raises
    ------
    Unjudged
        If one of them is missing, damaged, or of another run, or the training diverged.
    """
    try:
        result = read_json(folder / "result.json", RESULT)
    except DamagedFile as error:
        raise Unjudged(str(error)) from None
    if result is None:
        raise Unjudged("it ended without a result")
    said = {key: result[key] for key in ("world", "seed")} | {
        "file": result["challenge"].get("file"),
        "trial": result.get("trial"),
    }
    wrong = [key for key, value in said.items() if value != expected[key]]
    if wrong or result["global_batch"] != GLOBAL_BATCH:
        raise Unjudged(f"its result is of another run: {', '.join(wrong) or 'global_batch'} differs")
    if result.get("diverged"):
        raise Unjudged("it diverged: its loss was not a finite number any more")
    if not (math.isfinite(result["seconds"]) and result["seconds"] > 0 and result["samples"] > 0):
        raise Unjudged(f"its result has {result['samples']} samples in {result['seconds']} s")
    found = accuracy(_logits(folder / "logits.npy", len(labels)), labels)
    write_json(folder / "judged.json", {"accuracy": found, "samples": result["samples"], "seconds": result["seconds"]})
    return found, result


def _logits(path: Path, rows: int) -> np.ndarray:
    try:
        if path.stat().st_size > 4 * rows * CLASSES + HEADER_BYTES:
            raise Unjudged(f"{path.name} is larger than logits of {rows:,} pictures are")
        logits = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise Unjudged("it ended without logits of the private pictures") from None
    except (OSError, ValueError, EOFError) as error:
        raise Unjudged(f"{path.name} cannot be read: {error}") from None
    if not isinstance(logits, np.ndarray) or logits.shape != (rows, CLASSES) or logits.dtype != np.float32:
        shape, kind = getattr(logits, "shape", None), getattr(logits, "dtype", type(logits).__name__)
        raise Unjudged(f"{path.name} holds {kind} {shape}, and float32 {(rows, CLASSES)} is needed")
    return logits
