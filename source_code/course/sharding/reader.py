"""A reader's own files in a training: the class that shards an optimizer, and functions that write checkpoints."""

import math
import runpy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from course.sharding.array_store import BETA, BETA2, EPSILON, Store
from course.sharding.communicator import Ranks
from ddl.errors import InputError


def defined(file: str, names: Sequence[str]) -> list[Callable]:
    """Run a file and return what it defines under these names. Raises InputError if one is missing."""
    try:
        found = runpy.run_path(str(file))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Run the cell that writes it") from error
    for name in names:
        if not callable(found.get(name)):
            raise InputError(f"{Path(file).name} does not define {name}")
    return [found[name] for name in names]


def trained_by(file: str) -> Callable:
    """Return the class that trains: of ``FILE:CLASS``, a class of lesson 6b, or FILE's Sharded (lesson 6) by layers."""
    file, _, name = str(file).partition(":")
    return defined(file, [name])[0] if name else partial(ByLayer, *defined(file, ["Sharded"]))


class ByLayer:
    """The layers of a class with all weights in one vector, ``weights``, and ``update(gradient)``."""

    def __init__(self, kind: Callable, layers: dict[str, np.ndarray], ranks: Ranks, optimizer: Callable):
        ends = np.cumsum([len(weights) for weights in layers.values()])
        self._places = {name: slice(end - len(layers[name]), end) for name, end in zip(layers, ends, strict=True)}
        self.answer, self._gradients = kind(np.concatenate([*layers.values()]), ranks, optimizer), {}

    def gather(self, name):
        return self.answer.weights[self._places[name]]

    def reduce(self, name, gradient):
        self._gradients[name] = gradient

    def update(self):
        self.answer.update(np.concatenate([self._gradients[name] for name in self._places]))


class Adam:
    """Adam for `numbers` weights, in NumPy; `moments` are float32 ``[2, numbers]``."""

    def __init__(self, numbers: int, rate: float, step: int = 0, moments=None):
        self.moments = np.zeros((2, numbers), np.float32) if moments is None else moments
        self._rate, self._step = rate, step

    def change(self, gradient) -> np.ndarray:
        """Return the update of weights with this gradient, float32 ``[n]``."""
        self._step += 1
        for moment, beta, value in zip(self.moments, (BETA, BETA2), (gradient, np.square(gradient)), strict=True):
            moment *= beta
            moment += (1 - beta) * value
        first, second = self.moments
        rate = self._rate * math.sqrt(1 - BETA2**self._step) / (1 - BETA**self._step)
        return -rate * first / (np.sqrt(second) + EPSILON)


class ReadersStore(Store):
    """A store in which a reader's class keeps and updates the weights, layer by layer (see `trained_by`).

    With `prefetch`, a thread gathers the next layer while this one computes. ``timeline`` has the seconds from a step's
    begin at which gathers and reductions, and the computation between them, began and ended.
    """

    def __init__(self, world, kind: Callable, rate: float, prefetch: bool = False):
        super().__init__(world, 0, rate)
        self._kind, self._ranks = kind, Ranks(world)
        self.timeline = {}  # of the last step
        self._prefetch, self._thread, self._arriving, self._direction = prefetch, ThreadPoolExecutor(1), {}, 1

    def _keep(self, initial):
        layers = {str(number): _flat(matrices) for number, matrices in enumerate(initial)}
        self._n = sum(map(len, layers.values()))
        self._begin(layers)

    def _begin(self, layers, moments=None):
        self._optimizers = []

        def make(numbers):
            self._optimizers.append(Adam(int(numbers), self._rate, self._steps, moments))
            return self._optimizers[-1]

        self.answer = self._kind(layers, self._ranks, make)

    def weights(self, number):
        last = len(self._layers) - 1
        if number == 0 and self._direction > 0:  # a new step
            self._zero, self._resumed = time.perf_counter(), 0.0
            self.timeline = {"computation": [], "communication": []}
        if number == last:
            self._direction = -1
        values = self._waited(self._arriving.pop(number, None) or self._begun("gather", number))
        after = number + self._direction
        if self._prefetch and 0 <= after <= last:
            self._arriving[after] = self._begun("gather", after)
        shapes = self._layers[number].shapes
        parts = np.split(np.asarray(values, np.float32), np.cumsum([math.prod(shape) for shape in shapes])[:-1])
        return [tf.reshape(tf.constant(part), shape) for part, shape in zip(parts, shapes, strict=True)]

    def add(self, number, gradients):
        self._waited(self._begun("reduce", number, _flat(gradients)))

    def update(self):
        self._steps, self._direction = self._steps + 1, 1
        self.answer.update()

    def _begun(self, name, number, *values):
        """Begin a call of the answer's method for a layer, in the thread."""

        def timed():
            begin = time.perf_counter() - self._zero
            found = getattr(self.answer, name)(str(number), *values)
            self.timeline["communication"].append((begin, time.perf_counter() - self._zero))
            return found

        return self._thread.submit(timed)

    def _waited(self, future):
        self.timeline["computation"].append((self._resumed, time.perf_counter() - self._zero))
        found = future.result()
        self._resumed = time.perf_counter() - self._zero
        return found

    @property
    def state_numbers(self) -> int:
        return sum(optimizer.moments.size for optimizer in self._optimizers)

    def shards(self):
        lengths = [optimizer.moments.shape[1] for optimizer in self._optimizers]
        if not isinstance(self.answer, ByLayer) or lengths != [self._world.per_rank(self._n)]:
            raise InputError(
                "checkpoints need a class Sharded with one optimizer, for this rank's shard of the weights"
            )
        first, second = self._optimizers[0].moments
        found = {"weights": self._world.own(self.answer.answer.weights), "first": first, "second": second}
        return found, dict.fromkeys(found, self._n)

    def restore(self, step, shards):
        self._steps = step
        whole = self._world.whole(shards["weights"], [self._n]).numpy()
        sizes = [sum(math.prod(shape) for shape in layer.shapes) for layer in self._layers]
        layers = {str(number): shard for number, shard in enumerate(np.split(whole, np.cumsum(sizes)[:-1]))}
        self._begin(layers, np.stack([shards["first"], shards["second"]]))


def _flat(matrices):
    return np.concatenate([np.ravel(matrix) for matrix in matrices])
