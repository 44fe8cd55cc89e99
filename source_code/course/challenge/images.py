"""The images of a score: those to train on, and the private ones with fresh noise in a fresh order."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from course import data
from course.challenge.rules import TARGETS
from course.data import synthetic
from ddl.errors import InputError


def choose(data_set: str) -> str:
    """Return the data set to use: for "auto" CIFAR-10 if it is here, else generated images."""
    if data_set not in ("auto", *TARGETS):
        raise InputError(f"data_set must be auto, {' or '.join(TARGETS)}, got {data_set!r}")
    return data_set if data_set != "auto" else "cifar10" if data.is_there("cifar10") else "synthetic"


def training_images(name: str, samples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the images to train on, uint8 ``[n, 32, 32, 3]``, and their labels; all of them by default."""
    found = data.load(name, train_samples=samples, test_samples=1, held_out="validation")
    return found.train_images, found.train_labels


def private_images(name: str, seed: int, samples: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the private images of one run, and their labels.

    A file can hold a table of CIFAR-10's test images, so their order is random and each value changes by up to 1.
    """
    draws = np.random.default_rng([seed, 1])
    if name == "synthetic":
        images, labels = synthetic.generate("test", samples or 10_000, seed)
    else:
        whole = data.load(name, train_samples=1, test_samples=samples)
        images, labels = whole.test_images, whole.test_labels
    order = draws.permutation(len(labels))
    noise = draws.integers(-1, 2, images.shape, np.int8)
    return np.clip(images[order].astype(np.int16) + noise, 0, 255).astype(np.uint8), labels[order]


@contextmanager
def shared(images: np.ndarray, labels: np.ndarray) -> Iterator[int]:
    """Yield a descriptor of images, then labels as int32, that other processes can map and nobody can change."""
    descriptor = os.memfd_create("images", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(np.ascontiguousarray(images).data)
            file.write(labels.astype(np.int32).tobytes())
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        yield descriptor
    finally:
        os.close(descriptor)
