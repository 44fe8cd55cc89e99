"""A generated data set of CIFAR-10's shape, for machines without the real one.

Each image shows one of ten figures, shifted, rotated and stretched, in random colors, with a streak and a blob in front
and noise on top. Color and single pixels say little about the class, so a linear model does badly and a convolutional
network needs good training, which the course's comparisons rely on. Measured on the test split: nearest mean color 10
%, softmax regression on pixels 22 %, the course's network with batch norm 49 % after two epochs of 10,000 images and 91
% after four of 50,000 (batch 128, momentum, one seed).
"""

import errno
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from course.data import store
from course.data.dataset import VALIDATION_SAMPLES, DataError, DataSet
from ddl.records.files import locked

VERSION = 2  # of the images; increase it to have stored ones generated again
WHOLE = {"train": 50_000, "test": 10_000}
STREAMS = {"train": 0, "test": 1, "validation": 2}  # of random numbers
SIDE = 32
SMALL = 5_000  # samples that are generated on demand, in less than a second
CHUNK = 500  # images at a time, so that their float32 arrays stay in the processor's cache


def _square(u, v, _):
    return np.maximum(np.abs(u), np.abs(v))


def _triangle(u, v, _):
    half, tall = 0.5, 3**0.5 / 2
    return 0.6 - np.maximum(-u, np.maximum(half * u + tall * v, half * u - tall * v))


def _cross(u, v, _):
    u, v = np.abs(u), np.abs(v)
    return np.minimum(0.3 - np.minimum(u, v), 1 - np.maximum(u, v))


# Each figure is a function of the position (u, v) in its own axes and the distance r from the center. It is positive
# inside and falls by about one per radius.
FIGURES = {
    "disc": lambda u, v, r: 0.95 - r,
    "ring": lambda u, v, r: 0.25 - np.abs(r - 0.75),
    "square": lambda u, v, r: 0.85 - _square(u, v, r),
    "frame": lambda u, v, r: 0.22 - np.abs(_square(u, v, r) - 0.68),
    "triangle": _triangle,
    "cross": _cross,
    "star": lambda u, v, r: 0.65 + 0.35 * np.cos(5 * np.arctan2(v, u)) - r,
    "moon": lambda u, v, r: np.minimum(1 - r, np.hypot(u - 0.5, v) - 0.75),
    "bars": lambda u, v, r: np.minimum(1 - r, 0.2 * np.cos(8 * u)),
    "checks": lambda u, v, r: np.minimum(0.9 - _square(u, v, r), 0.25 * np.cos(5.2 * u) * np.cos(5.2 * v)),
}
CLASS_NAMES = tuple(FIGURES)


def generate(split: str, samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Generate images, uint8 ``[samples, 32, 32, 3]``, and labels, int32 ``[samples]``, of one of `STREAMS`.

    A smaller set is the beginning of a larger one, and every 500 samples have 50 of each class. The result depends only
    on the NumPy version and the kind of processor.
    """
    images = np.empty((samples, SIDE, SIDE, 3), np.uint8)
    labels = np.empty(samples, np.int32)
    for start in range(0, samples, CHUNK):
        stop = min(start + CHUNK, samples)
        rng = np.random.default_rng([seed, STREAMS[split], start])
        chunk_images, chunk_labels = _chunk(rng)
        images[start:stop] = chunk_images[: stop - start]
        labels[start:stop] = chunk_labels[: stop - start]
    return images, labels


def _chunk(rng):
    """Return CHUNK images, uint8, and their labels, in random order."""
    n = CHUNK
    labels = rng.permutation(np.arange(n, dtype=np.int32) % len(FIGURES))

    def between(low, high, *shape):
        return low + (high - low) * rng.random((n, *shape), np.float32)

    def tint(contrast):
        """Return a color step of that size (in gray levels) in a random direction.

        Brighter is more likely than darker, which is the first cue that training finds.
        """
        direction = rng.standard_normal((n, 3), np.float32) + np.float32(0.6)
        return direction * (contrast / np.linalg.norm(direction, axis=1))[:, None]

    middle, angle = between(11, 20, 2), between(-0.4, 0.4)
    radius, stretch = between(7, 11.5), between(0.8, 1.25)
    u, v = _turned(middle, angle)
    side = rng.choice(np.array([-1, 1], np.float32), n)  # half are mirrored
    u = u / (side * radius * stretch)[:, None, None]
    v = v / (radius / stretch)[:, None, None]
    inside = np.empty((n, SIDE, SIDE), np.float32)
    for label, function in enumerate(FIGURES.values()):
        mine = labels == label
        inside[mine] = function(u[mine], v[mine], np.hypot(u[mine], v[mine]))
    figure = _coverage(inside * radius[:, None, None])

    streak, _ = _turned(between(4, 28, 2), between(0, np.pi))
    streak = _coverage(between(0.5, 1.5, 1, 1) - np.abs(streak))
    x, y = _turned(between(2, 30, 2), np.zeros(n, np.float32))
    blob = _coverage(between(1.5, 4, 1, 1) - np.hypot(x, y))

    ground = between(70, 185, 3)
    picture = ground[:, None, None] + _uneven(rng, n, 12)
    picture += figure[..., None] * (tint(between(45, 130))[:, None, None] + _uneven(rng, n, 12))
    for mask in (streak, blob):
        color = (ground + tint(between(45, 130)))[:, None, None]
        picture += mask[..., None] * (color - picture)
    picture += rng.standard_normal(picture.shape, np.float32) * between(5, 20, 1, 1, 1)
    return np.clip(picture, 0, 255).astype(np.uint8), labels


def _turned(middle, angle):
    """Return each pixel's two coordinates, float32 ``[n, 32, 32]``, in rotated axes around `middle`."""
    line = np.arange(SIDE, dtype=np.float32)
    x = line[None, None, :] - middle[:, 0, None, None]
    y = line[None, :, None] - middle[:, 1, None, None]
    cos, sin = np.cos(angle)[:, None, None], np.sin(angle)[:, None, None]
    return cos * x + sin * y, cos * y - sin * x


def _coverage(distance):
    """Return the share of a pixel that is inside, from its distance in pixels to the edge."""
    return np.clip(distance + 0.5, 0, 1, out=distance)


def _uneven(rng, n, spread):
    """Return smooth random color, float32 ``[n, 32, 32, 3]``, with standard deviation `spread`."""
    knots = rng.standard_normal((n, 4, 4, 3), np.float32) * spread
    rows = (BLEND @ knots.reshape(n, 4, 12)).reshape(n, SIDE, 4, 3)
    return BLEND @ rows


# Weights for linear interpolation from 4 knots to 32 pixels.
BLEND = np.maximum(0, 1 - np.abs(np.linspace(0, 3, SIDE)[:, None] - np.arange(4)[None, :])).astype(np.float32)


def path(folder: Path, seed: int = 0) -> Path:
    """Return the path of the stored data set."""
    return folder / f"synthetic-{seed}.npy"


def source(folder: Path) -> str:
    """Return a fingerprint of the data set that `read` returns."""
    return f"synthetic {VERSION}"


def cached(folder: Path, seed: int = 0) -> store.Arrays | None:
    """Return the stored arrays of the whole data set, mapped into memory, or None."""
    return store.read(path(folder, seed), version=VERSION)


def make(folder: Path, seed: int = 0) -> None:
    """Generate and store the whole data set, which takes about ten seconds. The caller holds the lock.

    OSError at once where the disk has no room for it.
    """
    size = sum(WHOLE.values()) * SIDE * SIDE * 3
    if shutil.disk_usage(folder).free < size:
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} for {size >> 20} MiB", str(path(folder, seed)))
    arrays = _splits(WHOLE, seed)
    store.write(path(folder, seed), version=VERSION, **arrays)


def read(
    folder: Path,
    train_samples: int | None = None,
    test_samples: int | None = None,
    seed: int = 0,
    held_out: str = "test",
) -> DataSet:
    """Return the data set (50,000 and 10,000 samples), or the beginning of each of its splits.

    A request for more than a few thousand samples makes and keeps the whole data set, in one process while others wait
    for it. If the folder is not writable, they are generated each time. Raises DataError if more samples are asked for
    than there are, or none.
    """
    whole = WHOLE
    if held_out == "validation":
        whole = {"train": WHOLE["train"] - VALIDATION_SAMPLES, "test": VALIDATION_SAMPLES}
    requested = {"train": train_samples, "test": test_samples}
    sizes = {split: whole[split] if samples is None else samples for split, samples in requested.items()}
    for split, samples in sizes.items():
        if not 0 < samples <= whole[split]:
            name = held_out if split == "test" else split
            raise DataError(f"synthetic has {whole[split]} {name} samples: {samples} is not possible.")
    arrays: dict[str, Any] | None = cached(folder, seed)
    if arrays is None and sum(sizes.values()) > SMALL:
        with suppress(OSError):
            with locked(folder / "synthetic.lock"):
                if cached(folder, seed) is None:
                    make(folder, seed)
            arrays = cached(folder, seed)
    if arrays is None:
        arrays = _splits(sizes, seed)
    splits = {name: array[: sizes[name.partition("_")[0]]] for name, array in arrays.items() if name != "version"}
    if held_out == "validation":  # generated like the others, and in neither split
        splits["test_images"], splits["test_labels"] = generate("validation", sizes["test"], seed)
    return replace(DataSet.of("synthetic", splits | {"form": "generated"}, CLASS_NAMES), held_out=held_out)


def _splits(sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
    arrays = {}
    for split, samples in sizes.items():
        arrays[f"{split}_images"], arrays[f"{split}_labels"] = generate(split, samples, seed)
    return arrays
