"""What the training of lesson 3's exercise has: samples, their order, a network; and a record of what happens.

A reader makes the script around it distributed. While that is graded, the grader hands out samples and weights, and
`Task` tells it what each rank sees; `course.grader.conversion` compares that with a single device's training.
"""

import os

import numpy
import tensorflow as tf

from course.training.examiner import examiner
from course.training.witness import keep_weights
from ddl.records.folder import RunFolder
from ddl.records.recorder import Recorder

FEATURES, MIXED, CODE = 12, 16, 5
SAMPLES, BATCH, RATE = 200, 8, 0.5


class Network(tf.Module):
    """An autoencoder: a frozen layer mixes a sample's numbers, `tied` squeezes them to a code, and spreads them again.

    Each process draws weights of its own, as it does where nobody sets a seed.
    """

    def __init__(self):
        super().__init__()
        start = examiner().given()["weights"] if examiner() else _draw()
        self.frozen = tf.Variable(start["frozen"], trainable=False, name="frozen")  # [12, 16]
        self.tied = tf.Variable(start["tied"], name="tied")  # [16, 5], used twice
        self.inner = tf.Variable(start["inner"], name="inner")  # [5]
        self.outer = tf.Variable(start["outer"], name="outer")  # [16]

    def loss(self, samples):
        """Return the mean squared difference between mixed numbers and what the code tells of them."""
        mixed = tf.tanh(samples @ self.frozen)
        code = mixed @ self.tied + self.inner
        again = tf.matmul(code, self.tied, transpose_b=True) + self.outer
        return tf.reduce_mean(tf.square(again - mixed))


class Task:
    """Samples to train on, and a record of the training.

    A rank takes `batch` samples in a step, and `rate` is the learning rate for that batch.
    """

    def __init__(self):
        self._examiner = examiner()
        given = self._examiner.given() if self._examiner else _example()
        self._example, self._order = given.get("samples"), numpy.array(given["order"])
        self.batch, self.rate = given["batch"], given["rate"]
        self._steps, self._processed = 0, 0
        self._recorder = Recorder() if os.environ.get("HOROVOD_RANK", "0") == "0" else None

    def batches(self, size):
        """Return the numbers of the samples of each step, in an order that is the same in every process.

        Each batch has `size` numbers; what remains at the end is left out.
        """
        whole = len(self._order) // size * size
        return self._order[:whole].reshape(-1, size)

    def samples(self, numbers):
        """Return these samples: float32 ``[n, 12]``."""
        numbers = numpy.ravel(numbers)
        samples = self._examiner.samples(numbers.tolist()) if self._examiner else self._example[numbers]
        return tf.constant(samples, tf.float32, [len(numbers), FEATURES])

    def begin(self, model):
        """Note the weights before the first step."""
        self._note("begin", weights=_weights(model))
        self._event("start", world=int(os.environ.get("HOROVOD_SIZE", "1")))

    def step(self, model, loss, samples):
        """Note a step: the weights after it, its `loss`, and on how many `samples` all ranks together trained."""
        self._steps, self._processed = self._steps + 1, self._processed + int(samples)
        self._note("step", loss=float(loss), counted=int(samples), weights=_weights(model))
        self._event("step", step=self._steps, loss=float(loss), samples=self._processed)

    def save(self, model):
        """Write the model's weights to the run's ``weights.npz``."""
        if folder := RunFolder.here():
            keep_weights(folder, [weight.numpy() for weight in model.variables])
        if self._recorder:
            self._recorder.result({"steps": self._steps, "samples": self._processed})

    def _note(self, event, **fields):
        if self._examiner:
            self._examiner.note(event, **fields)

    def _event(self, name, **fields):
        if self._recorder:
            self._recorder.event(name, **fields)


def _weights(model):
    return {weight.name.split(":")[0]: weight.numpy().tolist() for weight in model.variables}


def _example():
    """Return samples of an example, their order, the batch and the rate."""
    draw = numpy.random.default_rng(0)
    samples = draw.normal(size=(SAMPLES, FEATURES))
    return {"samples": samples, "order": draw.permutation(SAMPLES), "batch": BATCH, "rate": RATE}


def _draw():
    """Return weights that no other process has."""
    draw = numpy.random.default_rng()
    shapes = {"frozen": (FEATURES, MIXED), "tied": (MIXED, CODE), "inner": (CODE,), "outer": (MIXED,)}
    return {name: draw.normal(scale=0.3, size=shape).astype(numpy.float32) for name, shape in shapes.items()}
