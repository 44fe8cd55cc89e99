"""`train_submission.py` on real ranks: two ranks train what one does, and what can't work is refused."""

import pytest

from ddl import RunFailed, launch

pytestmark = pytest.mark.slow("source_code/course/challenge/*")

FILE = """
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SAMPLES = 5120
GHOST_BATCH = 256

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Conv2D(4, 3, strides=4)(pictures)
    return tf.keras.Model(pictures, layers.Dense(10)(layers.Flatten()(layers.ReLU()(x))))

def schedule(done):
    return 0.1 * (1 - done)
"""


@pytest.fixture
def trained(script):
    """Return a function that trains a submission on some ranks, and gives the result."""

    def train(text, workers):
        options = dict(data_set="synthetic", train_samples=2048, public_samples=100, seed=7, oversubscribe=True)
        return launch("train_submission.py", workers=workers, file=script(text, "mine.py"), **options).result

    return train


def test_two_ranks_train_as_one_with_twice_the_passes(trained):
    one, two = (trained(FILE, workers) for workers in (1, 2))
    assert one["samples"] == two["samples"] == 5120 and (one["world"], two["world"]) == (1, 2)
    assert two["public_accuracy"] == pytest.approx(one["public_accuracy"], abs=0.03)
    for ours, theirs in zip(one["history"], two["history"], strict=True):
        assert theirs["loss"] == pytest.approx(ours["loss"], rel=1e-3)


def test_diverging_training_reaches_nothing(trained):
    result = trained(FILE + "\ndef loss(logits, labels):\n    return tf.reduce_sum(logits, 1) / 0.0\n", 2)
    assert result["diverged"] and result["public_accuracy"] == 0.0


def test_pass_that_does_not_divide_a_ranks_part_is_refused(trained):
    with pytest.raises(RunFailed, match="exited with an error"):
        trained(FILE + "\nGHOST_BATCH = 1024\n", 2)
