"""The images of a score: sealed for training; private ones with noise, in a random order, made of nothing known."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from course.challenge import images


def test_private_images_get_noise_and_a_new_order(monkeypatch):
    draws = np.random.default_rng(0)
    whole = SimpleNamespace(
        test_images=draws.integers(0, 256, (40, 32, 32, 3), np.uint8), test_labels=np.arange(40) % 10
    )
    monkeypatch.setattr(images.data, "load", lambda name, **_: whole)
    first, labels = images.private_images("cifar10", 1)
    again, _ = images.private_images("cifar10", 1)
    other, _ = images.private_images("cifar10", 2)
    np.testing.assert_array_equal(first, again)
    known = {picture.tobytes() for picture in whole.test_images}
    assert not known & {picture.tobytes() for picture in first}  # a table of hashes finds none
    # Each is one of the test images, at most one level away, with its own label.
    distances = np.abs(first[:, None].astype(int) - whole.test_images[None].astype(int)).max((2, 3, 4))
    order = distances.argmin(1)
    assert (distances.min(1) == 1).all() and sorted(order) == list(range(len(labels)))
    np.testing.assert_array_equal(labels, whole.test_labels[order])
    assert (order != np.arange(len(order))).any() and not np.array_equal(first, other)


def test_shared_images_are_read_only():
    pictures, labels = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 32, 32, 3), np.array([3, 7])
    with images.shared(pictures, labels) as descriptor:
        content = os.pread(descriptor, 10_000, 0)
        assert content == pictures.tobytes() + labels.astype(np.int32).tobytes()
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"x", 0)
        with open(f"/proc/self/fd/{descriptor}", "rb+", buffering=0) as file, pytest.raises(PermissionError):
            file.write(b"x")
