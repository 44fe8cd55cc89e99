"""Storage of weights, gradients and Adam's state: replicated, or sharded in ZeRO's stages.

Stage 1 shards the optimizer's state, stage 2 also the gradients, stage 3 also the weights (Rajbhandari et al. 2020,
"ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"; PyTorch's FSDP is stage 3). Each matrix is split
into equal shards, one per rank, with zero padding at the end.
"""

import math
from collections.abc import Iterable

import numpy as np
import tensorflow as tf

from course.sharding.communicator import World
from course.sharding.transformer import Layer

BETA, BETA2, EPSILON = 0.9, 0.99, 1e-8


class Store:
    """Weights and state of layers that the ranks of a `world` share.

    A training step asks for the `weights` of each layer, hands in its gradients (`add`), and calls `update` once.
    """

    def __init__(self, world: World, stage: int, rate: float):
        self._world, self._stage, self._rate = world, stage, rate
        self._layers, self._weights, self._slots, self._gradients, self._steps = [], [], [], {}, 0

    def fill(self, layers: list[Layer], seed: int):
        """Create the weights and state of layers."""
        self._layers = layers
        self._keep(layer.initial(seed) for layer in layers)

    def _keep(self, initial: Iterable[list[np.ndarray]]):
        """Store initial matrices, which come layer by layer."""
        for matrices in initial:
            shards = [self._world.own(matrix) for matrix in matrices] if self._stage else matrices
            self._weights.append([tf.Variable(matrix) for matrix in (shards if self._stage == 3 else matrices)])
            self._slots.append([[tf.Variable(np.zeros_like(shard)) for _ in range(2)] for shard in shards])

    def shards(self) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Return this rank's shards of weights and state by name, and the lengths of the whole arrays."""
        own = {name: self._world.own(each) if each.shape.rank == 2 else each.numpy() for name, each, _ in self._named()}
        return own, {name: math.prod(shape) for name, _, shape in self._named()}

    def restore(self, step: int, shards: dict[str, np.ndarray]):
        """Continue after `step` with these shards."""
        self._steps = step
        for name, variable, shape in self._named():
            whole = variable.shape.rank == 2
            variable.assign(self._world.whole(shards[name], shape) if whole else shards[name])

    @property
    def state_numbers(self) -> int:
        """Count of numbers of optimizer state on this rank."""
        return sum(slot.shape.num_elements() for layer in self._slots for slots in layer for slot in slots)

    def _named(self):
        """Yield name, variable and whole shape of each matrix and its state."""
        for layer, weights, slots in zip(self._layers, self._weights, self._slots, strict=True):
            for index, (shape, matrix, state) in enumerate(zip(layer.shapes, weights, slots, strict=True)):
                for kind, variable in enumerate([matrix, *state]):
                    yield f"{layer.name}.{index}.{kind}", variable, shape

    def weights(self, number: int) -> list:
        """Return a layer's whole matrices; in stage 3, they are gathered and exist only while in use."""
        kept, shapes = self._weights[number], self._layers[number].shapes
        if self._stage < 3:
            return [matrix.value() for matrix in kept]
        return [self._world.whole(shard.value(), shape) for shard, shape in zip(kept, shapes, strict=True)]

    def add(self, number: int, gradients: list):
        """Add a layer's gradients on this rank."""
        if self._stage >= 2:
            gradients = self._reduced(gradients)
        before = self._gradients.get(number)  # of other microbatches
        self._gradients[number] = [a + b for a, b in zip(before, gradients, strict=True)] if before else gradients

    def update(self):
        """Take a step of Adam with the mean of all ranks' gradients."""
        self._steps += 1
        for number, weights in enumerate(self._weights):
            gradients = self._gradients.pop(number)
            if self._stage == 0:
                gradients = [self._world.all_reduce(gradient) for gradient in gradients]
            elif self._stage == 1:
                gradients = self._reduced(gradients)
            for matrix, slots, gradient in zip(weights, self._slots[number], gradients, strict=True):
                self._update_one(matrix, slots, gradient)

    def _reduced(self, gradients):
        """Return this rank's shards of the mean gradients, freeing the whole ones one by one."""
        return [self._world.reduce_scatter(gradients.pop(0)) for _ in range(len(gradients))]

    def _update_one(self, matrix, slots, gradient):
        own = tf.Variable(self._world.own(matrix)) if self._stage in (1, 2) else matrix
        tf.raw_ops.ResourceApplyAdam(
            var=own.handle, m=slots[0].handle, v=slots[1].handle, grad=gradient, lr=self._rate, beta1=BETA,
            beta2=BETA2, beta1_power=BETA**self._steps, beta2_power=BETA2**self._steps, epsilon=EPSILON,
        )  # fmt: skip
        if own is not matrix:
            matrix.assign(self._world.whole(own.value(), matrix.shape))
