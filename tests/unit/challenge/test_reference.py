"""The reference submission trains with and without its tricks."""

import re

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from course.challenge.submission import Submission, find
from course.challenge.training import Training

# The file's constants without any of its tricks.
BARE = {
    "MUON": False, "WHITEN": False, "DIRAC": False, "WIDTHS": (64, 64, 64), "SMOOTHING": 0.0, "BIAS_FASTER": 1.0,
    "SCHEDULE": "cosine", "NORM_MOMENTUM": 0.99, "SHIFT": 0,
}  # fmt: skip


def reference(constants):
    """Return the reference with some of its constants changed."""
    text = find("reference.py").read_text()
    for name, value in constants.items():
        text, changed = re.subn(rf"(?m)^{name} = [^#\n]*?(?=  #|$)", f"{name} = {value!r}", text)
        assert changed == 1, name
    return Submission("mine.py", text.encode())


@pytest.mark.slow
@pytest.mark.parametrize(("constants", "prepares"), [({}, 1024), (BARE, 0)], ids=["all tricks", "none"])
def test_reference_trains_a_step(constants, prepares):
    images = np.random.default_rng(0).integers(0, 256, (1024, 32, 32, 3), np.uint8)
    training = Training(reference(constants), images, np.arange(1024) % 10, 1, 2)
    assert training.prepare() == prepares  # whitening is its only preparation
    ((number, batch),) = training.order.batches(0, 1)
    assert np.isfinite(training.step(number, batch, 1)).all()
