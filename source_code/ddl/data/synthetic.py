"""A generated data set of CIFAR-10's shape, for machines without the real one."""

import numpy as np

from ddl.data import store
from ddl.data.dataset import DataError, DataSet

__all__ = ["cached", "generate", "read"]

VERSION = 1
CHUNK = 1000
WHOLE = {"train": 50_000, "test": 10_000}
CLASS_NAMES = tuple("abcdefghij")


def cached(folder, seed=0):
    """Return the stored arrays of the whole data set, or None."""
    arrays = store.read(folder / f"synthetic-{seed}.npy")
    return arrays if arrays and int(arrays["version"]) == VERSION else None


def read(folder, train_samples=None, test_samples=None, seed=0):
    """Return the data set, generated where it is not stored yet."""
    size = {"train": train_samples or WHOLE["train"], "test": test_samples or WHOLE["test"]}
    arrays = {}
    for part, samples in size.items():
        arrays[f"{part}_images"], arrays[f"{part}_labels"] = generate(part, samples, seed)
    return DataSet(name="synthetic", form="generated", class_names=CLASS_NAMES, **arrays)


def generate(part, samples, seed=0):
    """Return generated pictures and labels."""
    images = np.empty((samples, 32, 32, 3), np.uint8)
    labels = np.empty(samples, np.int32)
    for start in range(0, samples, CHUNK):
        rng = np.random.default_rng([seed, part == "test", start])
        label = rng.permutation(np.arange(CHUNK, dtype=np.int32) % 10)
        y, x = np.mgrid[:32, :32].astype(np.float32)
        angle = (label * np.pi / 10)[:, None, None]
        wave = np.sin((np.cos(angle) * x + np.sin(angle) * y) * 0.8 + 6 * rng.random((CHUNK, 1, 1)))
        noise = rng.normal(0, 60, (CHUNK, 32, 32, 3))
        picture = np.clip(128 + 50 * wave[..., None] + noise, 0, 255).astype(np.uint8)
        stop = min(start + CHUNK, samples)
        images[start:stop], labels[start:stop] = picture[: stop - start], label[: stop - start]
    return images, labels
