"""The course's reference: it builds with and without its tricks, and those that pictures show are what they say."""

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import challenge
from submissions import submission


@pytest.fixture(scope="module")
def reference():
    return submission(challenge.REFERENCE.source())


@pytest.fixture
def pictures():
    """Pictures whose neighbouring pixels are alike, float32 [1024, 32, 32, 3]."""
    noise = np.random.default_rng(0).random([1024, 11, 11, 3], np.float32)
    return tf.image.resize(noise, [32, 32], "bicubic")


@pytest.mark.parametrize("arm", [challenge.REFERENCE, challenge.alone(None, {})], ids=lambda arm: arm.name)
def test_it_builds(arm):
    settings = submission(arm.source()).built([1])["settings"]
    assert settings["passes"] == 1
    assert settings["prepare_samples"] == 1024 * (arm.name == "reference")  # whitening is its only preparation


def test_whitened_patches_have_equal_and_unrelated_parts(reference, pictures):
    made = reference.make(1).model
    first = tf.keras.Model(made.input, made.get_layer("first").output)

    def spread():
        """Return the covariance of what the filters without their negatives give."""
        parts = tf.reshape(first(pictures), [-1, 24])[:, :12].numpy().astype(np.float64)
        return parts.T @ parts / len(parts)

    assert np.abs(spread() - np.eye(12)).max() > 0.5
    reference.prepare(made, pictures)
    assert np.abs(spread() - np.eye(12)).max() < 0.1
    kernel = made.get_layer("first").kernel.numpy()
    assert np.array_equal(kernel[..., :12], -kernel[..., 12:])


def test_dirac_filters_pass_on_what_comes_in(reference, pictures):
    kernel = reference.start((3, 3, 3, 5))
    passed = tf.nn.conv2d(pictures, kernel, 1, "SAME")
    assert np.array_equal(passed[..., :3], pictures)
    assert not np.allclose(passed[..., 3:], 0)


def test_successive_epochs_show_each_picture_both_ways(reference):
    numbers = tf.range(64, dtype=tf.int32)
    # Dark on the left: no shift by a few pixels changes on which side it is.
    half = tf.tile(tf.concat([tf.zeros([1, 32, 16, 3]), tf.ones([1, 32, 16, 3])], 2), [64, 1, 1, 1])
    mirrored = [
        tf.reduce_mean(reference.augment(half, numbers, epoch, (epoch, 5))[:, :, 0], [1, 2]).numpy() > 0.5
        for epoch in (0, 1, 2)
    ]
    assert np.array_equal(mirrored[0], ~mirrored[1])
    assert np.array_equal(mirrored[0], mirrored[2])
    assert 0 < mirrored[0].mean() < 1


def test_shifts_reflect_and_stay_small(reference, pictures):
    moved = reference.augment(pictures[:64], tf.zeros([64], tf.int32), 1, (1, 2)).numpy()  # unmirrored
    padded = np.pad(pictures[:64], [(0, 0), (2, 2), (2, 2), (0, 0)], "reflect")
    places = set()
    for picture, wide in zip(moved, padded, strict=True):
        found = [
            (down, right)
            for down in range(5)
            for right in range(5)
            if np.array_equal(picture, wide[down : down + 32, right : right + 32])
        ]
        assert len(found) == 1
        places |= set(found)
    assert {down for down, _ in places} == {right for _, right in places} == set(range(5))


def test_a_step_of_muon_is_nearly_orthogonal(reference):
    gradient = tf.random.stateless_normal([3, 3, 8, 24], [1, 2])
    matrix = tf.reshape(reference.orthogonal(gradient), [72, 24])
    sizes = np.linalg.svd(matrix.numpy(), compute_uv=False)
    given = np.linalg.svd(tf.reshape(gradient, [72, 24]).numpy(), compute_uv=False)
    assert 0.5 < sizes.min() and sizes.max() < 1.3
    assert sizes.max() / sizes.min() < given.max() / given.min()
