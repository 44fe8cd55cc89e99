"""A reader's own files in a training: the class that shards an optimizer, and functions that write checkpoints."""

import math
import runpy
from collections.abc import Callable, Sequence
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
    """A store with all weights in one vector, which a reader's class ``Sharded`` updates (lesson 6, question 2)."""

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

        self._answer = self._sharded(weights, self._ranks, make)

    def weights(self, number):
        sizes = [sum(math.prod(shape) for shape in layer) for layer in self._shapes[: number + 1]]
        start, found = sum(sizes[:-1]), []
        for shape in self._shapes[number]:
            end = start + math.prod(shape)
            found.append(tf.reshape(tf.constant(self._answer.weights[start:end], tf.float32), shape))
            start = end
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
