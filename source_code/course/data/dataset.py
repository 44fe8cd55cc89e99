"""The in-memory form of every image data set in the course."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddl.errors import CourseError

SPLITS = ("train", "test")
HELD_OUT = ("test", "validation")
# The split for choosing settings. It leaves 45,056 CIFAR-10 images, a multiple of batch sizes up to 4,096.
VALIDATION_SAMPLES = 4_944


class DataError(CourseError, ValueError):
    """Data set missing or damaged, or impossible request."""


class DamagedData(DataError):
    """Damaged source of a real data set."""


class OtherFormat(DataError):
    """A real data set in a format that cannot be read."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Images and labels, split into a training and a test split.

    Images are uint8, shape ``[samples, 32, 32, 3]``, red-green-blue, and may be mapped from a file: treat them as
    read-only. Labels are int32, shape ``[samples]``, each an index into `class_names`.
    """

    name: str  # "cifar10", "svhn" or "synthetic"
    # "official" (checksums agree), "official layout, JPEG re-encoded", "official layout, unverified" or "generated"
    form: str
    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    class_names: tuple[str, ...]
    note: str | None = None  # why this data set was chosen, if that is not obvious
    held_out: str = HELD_OUT[0]  # contents of the test split: test images, or some of the training images

    @classmethod
    def of(cls, name: str, arrays: Mapping[str, Any], class_names: tuple[str, ...]) -> "DataSet":
        """Return a data set from arrays named like its fields."""
        train, test = ((arrays[f"{split}_images"], arrays[f"{split}_labels"]) for split in SPLITS)
        return cls(name, str(arrays["form"]), *train, *test, class_names=class_names)

    @property
    def train_samples(self) -> int:
        return len(self.train_labels)

    @property
    def test_samples(self) -> int:
        return len(self.test_labels)

    def describe(self) -> dict:
        """Return the record of this data set that goes into ``result.json``."""
        return {
            "name": self.name,
            "form": self.form,
            "train_samples": self.train_samples,
            "test_samples": self.test_samples,
            "held_out": self.held_out,
        }


def balanced_subset(labels: np.ndarray, samples: int, seed: int) -> np.ndarray:
    """Return the positions, int64, of a random class-balanced subset.

    A smaller subset is the beginning of a larger one with the same seed. Class counts differ by at most one until a
    class runs out.
    """
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    number = np.empty(len(labels), np.int64)  # rank of each sample within its class
    for label in np.unique(labels):
        mine = labels[shuffled] == label
        number[mine] = np.arange(mine.sum())
    return shuffled[np.argsort(number, kind="stable")[:samples]]
