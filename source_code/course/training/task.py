"""The samples of lesson 3's exercise, their order, and a record of the training; `exercise` and `torch_exercise` add a
network.

A reader makes the script around it distributed. While that is graded, the grader hands out samples and weights, and
`Task` tells it what each rank sees; `course.grader.conversion` compares that with a single device's training.
"""

import os

import numpy

from course.training.examiner import examiner
from course.training.witness import keep_weights
from ddl.records.folder import RunFolder
from ddl.records.recorder import Recorder

FEATURES, MIXED, CODE = 12, 16, 5
SHAPES = {"frozen": (FEATURES, MIXED), "tied": (MIXED, CODE), "inner": (CODE,), "outer": (MIXED,)}
SAMPLES, BATCH, RATE = 200, 8, 0.5


class Task:
    """Samples to train on, and a record of the training.

    A rank takes `batch` samples in a step, and `rate` is the learning rate for that batch. A library's own class has
    `_tensor`, which makes an array its own, and `_weights`, a model's arrays by name, in the names' order.
    """

    def __init__(self):
        self._examiner = examiner()
        given = self._examiner.given() if self._examiner else _example()
        self._example, self._order = given.get("samples"), numpy.array(given["order"])
        self.batch, self.rate = given["batch"], given["rate"]
        self._steps, self._processed = 0, 0
        self._recorder = Recorder() if _told("RANK", "0") == "0" else None

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
        return self._tensor(numpy.array(samples, numpy.float32).reshape(len(numbers), FEATURES))

    def begin(self, model):
        """Note the weights before the first step."""
        self._note("begin", weights=self._lists(model))
        self._event("start", world=int(_told("SIZE", "1")))

    def step(self, model, loss, samples):
        """Note a step: the weights after it, its `loss`, and on how many `samples` all ranks together trained."""
        self._steps, self._processed = self._steps + 1, self._processed + int(samples)
        self._note("step", loss=float(loss), counted=int(samples), weights=self._lists(model))
        self._event("step", step=self._steps, loss=float(loss), samples=self._processed)

    def save(self, model):
        """Write the model's weights to the run's ``weights.npz``."""
        if folder := RunFolder.here():
            keep_weights(folder, self._weights(model).values())
        if self._recorder:
            self._recorder.result({"steps": self._steps, "samples": self._processed})

    def _lists(self, model):
        return {name: weight.tolist() for name, weight in self._weights(model).items()}

    def _note(self, event, **fields):
        if self._examiner:
            self._examiner.note(event, **fields)

    def _event(self, name, **fields):
        if self._recorder:
            self._recorder.event(name, **fields)


def initial() -> dict[str, numpy.ndarray]:
    """Return the weights that this process begins with, float32 by name: the grader's, or drawn anew."""
    given = examiner().given()["weights"] if examiner() else _draw()
    return {name: numpy.array(weight, numpy.float32) for name, weight in given.items()}


def _told(name, default):
    """Return what Horovod's variables say, or torchrun's."""
    torchruns = {"RANK": "RANK", "SIZE": "WORLD_SIZE"}[name]
    return os.environ.get(f"HOROVOD_{name}", os.environ.get(torchruns, default))


def _example():
    """Return samples of an example, their order, the batch and the rate."""
    draw = numpy.random.default_rng(0)
    samples = draw.normal(size=(SAMPLES, FEATURES))
    return {"samples": samples, "order": draw.permutation(SAMPLES), "batch": BATCH, "rate": RATE}


def _draw():
    """Return weights that no other process has."""
    draw = numpy.random.default_rng()
    return {name: draw.normal(scale=0.3, size=shape) for name, shape in SHAPES.items()}


def loss_and_gradients(weights: dict[str, numpy.ndarray], samples: numpy.ndarray) -> tuple[float, dict]:
    """Return the mean loss of samples ``[n, features]``, and its gradients by the names of the trained weights.

    With a frozen ``F``, a tied ``W``, ``b`` and ``c`` it is the mean of ``(r - h)²``, where ``h = tanh(x F)`` and
    ``r = (h W + b) Wᵀ + c``.
    """
    mixed = numpy.tanh(samples @ weights["frozen"])
    code = mixed @ weights["tied"] + weights["inner"]
    error = code @ weights["tied"].T + weights["outer"] - mixed
    back = 2 * error / error.size
    to_code = back @ weights["tied"]
    gradients = {"tied": mixed.T @ to_code + back.T @ code, "inner": to_code.sum(axis=0), "outer": back.sum(axis=0)}
    return float(numpy.mean(error**2)), gradients
