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
def test_reference_trains_a_step(arm):
    images = np.random.default_rng(0).integers(0, 256, (1024, 32, 32, 3), np.uint8)
    training = Training(submission(arm), images, np.arange(1024) % 10, 1, 2)
    assert training.prepare() == (1024 if arm.name == "reference" else 0)  # whitening is its only preparation
    ((number, batch),) = training.order.batches(0, 1)
    assert np.isfinite(training.step(number, batch, 1)).all()
