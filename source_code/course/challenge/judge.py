"""The judge: logits of the private pictures against their labels, which only this side has.

So it is this side that makes the file of pictures which ranks open.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from course import data
from course.challenge.rules import CLASSES, GLOBAL_BATCH, MOST_GAP
from course.challenge.split import Split
from course.data import cifar10, synthetic
from ddl.errors import CourseError, InputError
from ddl.records.files import locked
from ddl.records.folder import StorageError
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.paths import data_dir, runs_dir

FORMAT = 1  # of the file of pictures; a change counts up, so that kept ones are made anew
HEADER_BYTES = 4096  # more than an .npy file of two dimensions begins with
RESULT = {"samples": int, "seconds": float, "global_batch": int, "world": int, "seed": int, "challenge": dict}


class Unjudged(CourseError):
    """A run ended without what a judge needs; it counts as a crash."""


def labels_of(name: str, samples: int | None = None) -> np.ndarray:
    """Return the labels of the private pictures, ``[n]``: of all test pictures of a data set, or of the first."""
    return _private(name, samples)[1]


def _private(name, samples):
    # Of generated ones no more are made than are asked for, and fewer are the beginning of more.
    whole = data.load(name, train_samples=1, test_samples=samples if name == "synthetic" else None)
    if samples is not None and samples > whole.test_samples:
        raise InputError(f"{name} has {whole.test_samples:,} private images: {samples:,} are not possible.")
    return whole.test_images[:samples], whole.test_labels[:samples]


def pictures_file(name: str, trial: Mapping[str, int] | None = None) -> Path:
    """Return the file of a data set's pictures that ranks open, made where it is missing or of an older source.

    It lies beside the data set, else in the runs folder. All of CIFAR-10 is in it, whatever the sizes of a `trial`; of
    generated pictures as many as a trial asks for. DataError, where the data set is missing or damaged; StorageError,
    where neither folder can be written.
    """
    sizes = {part: (trial or {}).get(f"{part}_samples") for part in ("train", "public", "private")}
    if name != "synthetic" or None in sizes.values():
        sizes = {}
    source = f"{FORMAT} " + (synthetic if name == "synthetic" else cifar10.REAL).source(data_dir())
    title = "-".join(map(str, ("challenge", name, *sizes.values())))
    paths = [folder / f"{title}.npy" for folder in (data_dir(), runs_dir() / "challenge")]
    for path in paths:
        if _is_made(path, source):
            return path
    for path in paths:
        try:
            with locked(path.with_suffix(".lock")):
                if not _is_made(path, source):  # by another process, until the lock was free
                    _split(name, **sizes).write(path, source)
            return path
        except OSError as error:
            problem = StorageError(error, path)
    raise problem


def _split(name, train=None, public=None, private=None):
    learn = data.load(name, train_samples=train, test_samples=public, held_out="validation")
    parts = learn.train_images, learn.train_labels, learn.test_images, learn.test_labels
    return Split(name, learn.form, *parts, _private(name, private)[0])


def _is_made(path, source):
    try:
        return bool(Split.at(path, source))
    except InputError:
        return False


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of rows whose largest logit is the label's; a row with a value that is not finite is wrong."""
    right = np.isfinite(logits).all(axis=1) & (logits.argmax(axis=1) == labels)
    return float(right.mean())


def judge(folder: Path, labels: np.ndarray, expected: Mapping[str, Any]) -> tuple[float, dict]:
    """Judge a run that has ended: return its private accuracy and its result; ``judged.json`` gets the first.

    Its folder has ``result.json`` and ``logits.npy``. `expected` is what the result has to say of the run: ``world``,
    ``seed``, ``trial``, and ``file``, the SHA-256 of its bytes. Unjudged, if one of them is missing, damaged, or of
    another run, or the training diverged.
    """
    try:
        result = read_json(folder / "result.json", RESULT)
    except DamagedFile as error:
        raise Unjudged(str(error)) from None
    if result is None:
        raise Unjudged("it ended without a result")
    identity = {**result, "file": result["challenge"].get("file")}
    wrong = [key for key, value in expected.items() if identity.get(key) != value]
    if wrong or result["global_batch"] != GLOBAL_BATCH:
        raise Unjudged(f"its result belongs to another run: {', '.join(wrong) or 'global_batch'} differs")
    if result.get("diverged"):
        raise Unjudged("it diverged: its loss was no longer a finite number")
    if not (math.isfinite(result["seconds"]) and result["seconds"] > 0 and result["samples"] > 0):
        raise Unjudged(f"its result has {result['samples']} samples in {result['seconds']} s")
    found = accuracy(_logits(folder / "logits.npy", len(labels)), labels)
    public, seen = result.get("public_accuracy") or 0.0, (result.get("data") or {}).get("test_samples") or len(labels)
    if found - public > MOST_GAP / math.sqrt(min(seen, len(labels))):
        raise Unjudged(
            f"it gets {found:.1%} of the private images right and {public:.1%} of the public ones, further apart "
            "than by chance: it has labels of private images, which no file may bring along"
        )
    write_json(folder / "judged.json", {"accuracy": found, "samples": result["samples"], "seconds": result["seconds"]})
    return found, result


def _logits(path: Path, rows: int) -> np.ndarray:
    try:
        if path.stat().st_size > 4 * rows * CLASSES + HEADER_BYTES:
            raise Unjudged(f"{path.name} is larger than logits of {rows:,} images are")
        logits = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise Unjudged("it ended without logits of the private images") from None
    except (OSError, ValueError, EOFError) as error:
        raise Unjudged(f"{path.name} cannot be read: {error}") from None
    if not isinstance(logits, np.ndarray) or logits.shape != (rows, CLASSES) or logits.dtype != np.float32:
        shape, kind = getattr(logits, "shape", None), getattr(logits, "dtype", type(logits).__name__)
        raise Unjudged(f"{path.name} holds {kind} {shape}, and float32 {(rows, CLASSES)} is needed")
    return logits
