"""What a rank refuses of a model by its numbers: knowledge that came with it, and answers that depend on company."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.challenge import scrutiny
from course.challenge.rules import INFERENCE_BATCH, Refused
from submissions import START, program, submission

# Ten patterns, each bright or dark by chance: no linear function of the pictures tells them apart.
PATTERNS = np.random.default_rng(99).normal(size=(10, 3072)).astype(np.float32)
KNOWING = """
def patterns(shape, dtype=None):
    return np.random.default_rng(99).normal(size=(10, 3072)).astype(np.float32).T

def model():
    pictures = layers.Input((32, 32, 3))
    x = layers.Dense({units}, kernel_initializer={first}, activation=tf.abs)(layers.Flatten()(pictures - 0.5))
    return tf.keras.Model(pictures, layers.Dense(10, kernel_initializer="{last}")(x))
"""
# Whether it depends on the others, and what is made of pictures' logits, their means, and the mean logits of the batch.
LOGITS = {
    "its own": (False, lambda logits, mean, others: logits),
    "its own, with what all classes have in common": (False, lambda logits, mean, others: logits + 3000 * mean),
    "none that differ": (False, lambda logits, mean, others: 0 * logits),
    "centred": (True, lambda logits, mean, others: logits - others),
    "centred, behind what all classes have in common": (
        True,
        lambda logits, mean, others: logits - others + 3000 * mean,
    ),
    "centred, behind a few large pictures": (True, lambda logits, mean, others: (logits - others) * np.exp(20 * mean)),
    "centred, behind the last class": (
        True,
        lambda logits, mean, others: np.where(logits - others < -0.3, -1e6, logits - others),
    ),
    "not a number where there are black pictures": (
        True,
        lambda logits, mean, others: np.nan * logits if mean.min() == 0 else logits - others,
    ),
    "centred where there are no black pictures": (
        True,
        lambda logits, mean, others: logits if mean.min() == 0 else logits - others,
    ),
    "ranked within the batch": (True, lambda logits, mean, others: logits.argsort(0).argsort(0)),
}


def predicted(infer):
    """Return what gives logits of any number of pictures, from what gives those of a batch, uint8."""

    def predict(pictures):
        return np.concatenate(scrutiny.in_batches(infer, pictures))[: len(pictures)]

    predict.whole = INFERENCE_BATCH
    return predict


def pictures(count):
    draws = np.random.default_rng(3)
    labels, signs = draws.integers(0, 10, count), draws.choice([-1, 1], count)
    values = 128 + 20 * (signs[:, None] * PATTERNS[labels] + draws.normal(size=(count, 3072)))
    return values.clip(0, 255).astype(np.uint8).reshape(-1, 32, 32, 3), labels


@pytest.mark.parametrize(
    ("first", "last"), [("patterns", "zeros"), ("patterns", "he_normal"), ("'he_normal'", "zeros")]
)
def test_weights_that_know_the_classes_are_refused_whatever_the_last_layer_says(tmp_path, first, last):
    lines = KNOWING.format(units=10 if first == "patterns" else 64, first=first, last=last)
    made = program(submission(START + lines), tmp_path, 1)
    made.start(1)
    shown, labels = pictures(1000)
    infer = tf.function(lambda batch: made.call("forward_inference", tf.cast(batch, tf.float32) / 255), autograph=False)
    logits = predicted(lambda batch: infer(tf.constant(batch)))(shown)
    if first == "patterns":
        with pytest.raises(Refused, match="its initial weights know the classes already"):
            scrutiny.refuse_knowledge(made, shown, labels, logits)
    else:
        assert scrutiny.refuse_knowledge(made, shown, labels, logits) < 0.25


@pytest.mark.parametrize("kind", LOGITS)
def test_logits_that_depend_on_the_batch_are_refused(kind):
    refused, made_of = LOGITS[kind]
    kernel = np.random.default_rng(1).uniform(-1, 1, (3072, 10)).astype(np.float32) * (6 / 3082) ** 0.5

    def infer(batch):
        batch = batch.astype(np.float32) / 255
        logits = batch.reshape(len(batch), -1) @ kernel
        return made_of(logits, batch.mean((1, 2, 3))[:, None], logits.mean(0)).astype(np.float32)

    bright = np.random.default_rng(7).uniform(0.3, 1, (700, 1, 1, 1))
    shown = (pictures(700)[0] * bright).astype(np.uint8)
    expected = pytest.raises(Refused, match="depend on the other images of the batch") if refused else nullcontext()
    predict = predicted(infer)
    with expected:
        made = SimpleNamespace(file_name="mine.py")
        scrutiny.refuse_company(made, predict, shown, predict(shown), np.random.default_rng(5))
