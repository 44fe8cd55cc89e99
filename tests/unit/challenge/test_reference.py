"""The reference submission trains with and without its tricks."""

from collections import ChainMap

import numpy as np
import pytest

pytest.importorskip("tensorflow")

import challenge
from course.challenge.submission import Submission
from course.challenge.training import Training


def submission(arm):
    return Submission("mine.py", arm.source().encode())


BARE = challenge.Arm("no trick", "reference.py", ChainMap(*challenge.TRICKS.values()))


@pytest.mark.slow
@pytest.mark.parametrize("arm", [challenge.REFERENCE, BARE], ids=lambda arm: arm.name)
def test_reference_trains_a_step(arm):
    images = np.random.default_rng(0).integers(0, 256, (1024, 32, 32, 3), np.uint8)
    training = Training(submission(arm), images, np.arange(1024) % 10, 1, 2)
    assert training.prepare() == (1024 if arm.name == "reference" else 0)  # whitening is its only preparation
    ((number, batch),) = training.order.batches(0, 1)
    assert np.isfinite(training.step(number, batch, 1)).all()
