"""Flips and shifts in the graph, against NumPy's own padding and slicing."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.data.augment import augment, normalize

BATCH = 96
IMAGES = np.random.default_rng(0).integers(0, 256, (BATCH, 32, 32, 3), np.uint8)


def variants(image):
    """Return every picture that `augment` may make, keyed by (flip, down, right)."""
    padded = np.pad(image, ((4, 4), (4, 4), (0, 0)), mode="reflect")
    made = {}
    for down in range(9):
        for right in range(9):
            crop = padded[down : down + 32, right : right + 32]
            made[False, down - 4, right - 4] = crop
            made[True, down - 4, right - 4] = crop[:, ::-1]
    return made


def test_augmentation_flips_and_shifts():
    flips, downs, rights = [], [], []
    for before, after in zip(IMAGES, augment(IMAGES, (0, 1), 0, BATCH).numpy()):
        (kind,) = [key for key, value in variants(before).items() if np.array_equal(value, after)]
        for seen, value in zip((flips, downs, rights), kind):
            seen.append(value)
    assert 0.3 < np.mean(flips) < 0.7
    assert set(downs) == set(rights) == set(range(-4, 5))
    assert abs(np.corrcoef(downs, rights)[0, 1]) < 0.3 > abs(np.corrcoef(flips, rights)[0, 1])


def test_augmentation_is_independent_of_ranks():
    whole = augment(IMAGES, (7, 3), 0, BATCH)
    for ranks in (2, 3):
        each = BATCH // ranks
        parts = [augment(IMAGES[k : k + each], (7, 3), k, BATCH) for k in range(0, BATCH, each)]
        np.testing.assert_array_equal(tf.concat(parts, 0), whole)
    graph = tf.function(lambda images, step: augment(images, (7, step), 32, BATCH))  # as steps do
    np.testing.assert_array_equal(graph(IMAGES[32:64], tf.constant(3)), whole[32:64])
    for seed in ((7, 4), (8, 3)):
        assert not np.array_equal(whole, augment(IMAGES, seed, 0, BATCH))


def test_normalize_gives_about_zero_mean_and_unit_spread():
    values = normalize(tf.constant([[[[0, 120, 248]]]], tf.uint8)).numpy()
    assert values.dtype == np.float32
    np.testing.assert_allclose(values.ravel(), [-1.875, 0, 2])
