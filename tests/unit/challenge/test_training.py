"""The training of a submission: it learns, and answers by the classes' own names."""

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from course.challenge.submission import Submission
from course.challenge.training import Training
from submissions import TINY

PLAIN = """
def model():
    pictures = layers.Input((32, 32, 3))
    return tf.keras.Model(pictures, layers.Dense(10)(layers.Flatten()(pictures - 0.5)))

def schedule(done):
    if done < 0.5:
        return 0.02
    return 0.01
"""


@pytest.mark.slow("source_code/course/challenge/*")
def test_trained_submission_predicts_original_classes():
    draws = np.random.default_rng(0)
    patterns, labels = draws.integers(0, 256, (10, 32, 32, 3)), np.arange(2048) % 10
    images = ((patterns[labels] + draws.integers(0, 256, (2048, 32, 32, 3))) // 2).astype(np.uint8)
    training = Training(Submission("mine.py", (TINY + PLAIN).encode()), images, labels, 1, 2)
    for number, batch in training.order.batches(0, 10):
        training.step(number, batch, 10)
    logits = training.predict(images[:510])  # more than one batch, and no whole number of them
    assert logits.shape == (510, 10) and np.mean(logits.argmax(1) == labels[:510]) > 0.9
