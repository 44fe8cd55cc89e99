"""A reader's own files in a training: the class that shards an optimizer, and functions that write checkpoints."""

import math
import runpy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from course.sharding.array_store import BETA, BETA2, EPSILON, Store
from course.sharding.communicator import Ranks
from ddl.errors import InputError


def defined(file: str, names: Sequence[str]) -> list[Callable]:
    """Run a file and return what it defines under these names. Raises InputError if one is missing."""
    found = _run(file)
    for name in names:
        if not callable(found.get(name)):
            raise InputError(f"{Path(file).name} does not define {name}")
    return [found[name] for name in names]


def store_of(file: str, world, rate: float, prefetch: bool) -> "ReadersStore":
    """Return the store for the class in a file, FullySharded or Sharded."""
    if fully := _run(file).get("FullySharded"):
        return FullyStore(world, fully, rate, prefetch)
    return ReadersStore(world, *defined(file, ["Sharded"]), rate)


def _run(file):
    try:
        return runpy.run_path(str(file))
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}. Run the cell that writes it") from error


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
    """A store with all weights in one vector, which a reader's class ``Sharded`` updates (lesson 6, question 1)."""

    def __init__(self, world, sharded: Callable, rate: float):
        super().__init__(world, 0, "adam", rate)
        self._sharded, self._ranks = sharded, Ranks(world)

    def _keep(self, matrices):
        self._shapes, flat = [], []
        for layer in matrices:
            self._shapes.append([matrix.shape for matrix in layer])
            flat += [matrix.ravel() for matrix in layer]
        self._begin(np.concatenate(flat))

    def _begin(self, weights, moments=None):
        self._optimizers, self._n = [], len(weights)

        def make(numbers):
            self._optimizers.append(Adam(int(numbers), self._rate, self._steps, moments))
            return self._optimizers[-1]

        self._answer = self._sharded(weights, self._ranks, make)  # a vector, or vectors by name

    def weights(self, number):
        start = sum(math.prod(shape) for layer in self._shapes[:number] for shape in layer)
        return self._matrices(number, self._answer.weights[start:])

    def _matrices(self, number, values):
        """Return a layer's matrices, whose values come first in a vector."""
        found = []
        for shape in self._shapes[number]:
            size = math.prod(shape)
            found.append(tf.reshape(tf.constant(values[:size], tf.float32), shape))
            values = values[size:]
        return found

    def update(self):
        self._steps += 1
        flat = np.concatenate(
            [np.ravel(each) for number in sorted(self._gradients) for each in self._gradients[number]]
        )
        self._gradients.clear()
        self._answer.update(flat)

    @property
    def state_numbers(self) -> int:
        return sum(optimizer.moments.size for optimizer in self._optimizers)

    def parts(self):
        if len(self._optimizers) != 1 or self._optimizers[0].moments.shape[1] != self._world.per_rank(self._n):
            raise InputError("checkpoints need a class Sharded with one optimizer, for this rank's part of the weights")
        first, second = self._optimizers[0].moments
        found = {"weights": self._world.own(self._answer.weights), "first": first, "second": second}
        return found, dict.fromkeys(found, self._n)

    def restore(self, step, parts):
        self._steps = step
        whole = self._world.whole(parts["weights"], [self._n], "restored").numpy()
        self._begin(whole, np.stack([parts["first"], parts["second"]]))


class FullyStore(ReadersStore):
    """A store that a reader's class ``FullySharded`` keeps in parts (lesson 6b, question 2).

    With `prefetch`, a thread gathers the next layer while this one computes. ``timeline`` has the seconds from a step's
    begin at which gathers and reductions, and the computation between them, began and ended.
    """

    def __init__(self, world, sharded, rate, prefetch):
        super().__init__(world, sharded, rate)
        self.timeline = {}  # of the last step
        self._prefetch, self._thread, self._arriving, self._way = prefetch, ThreadPoolExecutor(1), {}, 1

    def _keep(self, matrices):
        self._shapes, flat = [], {}
        for number, layer in enumerate(matrices):
            self._shapes.append([matrix.shape for matrix in layer])
            flat[str(number)] = np.concatenate([matrix.ravel() for matrix in layer])
        self._begin(flat)

    def weights(self, number):
        last = len(self._shapes) - 1
        if number == 0 and self._way > 0:  # a new step
            self._zero, self._resumed = time.perf_counter(), 0.0
            self.timeline = {"computation": [], "communication": []}
        if number == last:
            self._way = -1
        arriving = self._arriving.pop(number, None) or self._thread.submit(
            self._timed, self._answer.gather, str(number)
        )
        found = self._waited(arriving)
        after = number + self._way
        if self._prefetch and 0 <= after <= last:
            self._arriving[after] = self._thread.submit(self._timed, self._answer.gather, str(after))
        return self._matrices(number, np.asarray(found))

    def add(self, number, gradients):
        flat = np.concatenate([np.ravel(each) for each in gradients])
        self._waited(self._thread.submit(self._timed, self._answer.reduce, str(number), flat))

    def update(self):
        self._steps, self._way = self._steps + 1, 1
        self._answer.update()

    def _waited(self, future):
        self.timeline["computation"].append((self._resumed, time.perf_counter() - self._zero))
        found = future.result()
        self._resumed = time.perf_counter() - self._zero
        return found

    def _timed(self, act, *arguments):
        begin = time.perf_counter() - self._zero
        found = act(*arguments)
        self.timeline["communication"].append((begin, time.perf_counter() - self._zero))
        return found

    def parts(self):
        raise InputError("checkpoints need a class Sharded")
