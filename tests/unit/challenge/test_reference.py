"""The course's reference: it builds with and without its tricks, and those that pictures show are what they say."""

from collections import ChainMap

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import challenge
from course.challenge.submission import Submission
from course.challenge.training import Training


def submission(arm):
    return Submission("mine.py", arm.source().encode())


@pytest.fixture(scope="module")
def reference():
    return submission(challenge.REFERENCE)


@pytest.fixture
def pictures():
    """Images with similar neighboring pixels, float32 [1024, 32, 32, 3]."""
    noise = np.random.default_rng(0).random([1024, 11, 11, 3], np.float32)
    return tf.image.resize(noise, [32, 32], "bicubic")


BARE = challenge.Arm("no trick", "reference.py", ChainMap(*challenge.TRICKS.values()))


@pytest.mark.parametrize("arm", [challenge.REFERENCE, BARE], ids=lambda arm: arm.name)
def test_it_trains_a_step(arm):
    images = np.random.default_rng(0).integers(0, 256, (1024, 32, 32, 3), np.uint8)
    training = Training(submission(arm), images, np.arange(1024) % 10, 1, 2)
    assert training.prepare() == (1024 if arm.name == "reference" else 0)  # whitening is its only preparation
    ((number, batch),) = training.order.batches(0, 1)
    assert np.isfinite(training.step(number, batch, 1)).all()


def test_whitened_patches_have_equal_and_unrelated_parts(reference, pictures):
    made = reference.model()
    first = tf.keras.Model(made.input, made.get_layer("first").output)

    def spread():
        """Return the covariance of what the filters without their negatives give."""
        inner = first(pictures)[:, 1:-1, 1:-1]
        parts = tf.reshape(inner, [-1, 16])[:, :8].numpy().astype(np.float64)
        return parts.T @ parts / len(parts)

    assert np.abs(spread() - np.eye(8)).max() > 0.5
    reference.prepare(made, pictures)
    assert np.abs(spread() - np.eye(8)).max() < 0.1
    kernel = made.get_layer("first").kernel.numpy()
    assert np.array_equal(kernel[..., :8], -kernel[..., 8:])


def test_dirac_filters_pass_on_what_comes_in(reference, pictures):
    four = tf.concat([pictures, pictures[..., :1]], 3)
    passed = tf.nn.conv2d(four, reference.start((3, 3, 4, 6)), 1, "SAME")
    assert np.array_equal(passed[..., :4], four)
    assert not np.allclose(passed[..., 4:], 0)


def test_half_are_mirrored_and_shifts_reflect_and_stay_small(reference, pictures):
    moved = reference.augment(pictures[:64], tf.zeros([64], tf.int32), 1, (1, 2)).numpy()
    padded = np.pad(pictures[:64], [(0, 0), (2, 2), (2, 2), (0, 0)], "reflect")
    places, mirrored = set(), 0
    for picture, wide in zip(moved, padded, strict=True):
        found = [
            (down, right, way)
            for down in range(5)
            for right in range(5)
            for way in (1, -1)
            if np.array_equal(picture, wide[down : down + 32, right : right + 32][:, ::way])
        ]
        ((down, right, way),) = found
        places |= {("down", down), ("right", right)}
        mirrored += way < 0
    assert len(places) == 10 and 16 < mirrored < 48


def test_a_step_of_muon_is_nearly_orthogonal(reference):
    gradient = tf.random.stateless_normal([3, 3, 8, 24], [1, 2])
    matrix = tf.reshape(reference.orthogonal(gradient), [72, 24])
    sizes = np.linalg.svd(matrix.numpy(), compute_uv=False)
    given = np.linalg.svd(tf.reshape(gradient, [72, 24]).numpy(), compute_uv=False)
    assert 0.5 < sizes.min() and sizes.max() < 1.3
    assert sizes.max() / sizes.min() < given.max() / given.min()
