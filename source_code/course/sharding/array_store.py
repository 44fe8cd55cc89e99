"""Storage of weights, gradients and optimizer state: replicated, or sharded in ZeRO's stages.

Stage 1 shards the optimizer's state, stage 2 also the gradients, stage 3 also the weights (Rajbhandari et al. 2020,
"ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"; PyTorch's FSDP is stage 3). Each matrix is split
into equal parts, one per rank, with zero padding at the end.
"""

import math

import numpy as np
import tensorflow as tf

from course.sharding.communicator import World
from course.sharding.memory import SLOTS
from course.sharding.sums import initial
from course.sharding.transformer import Layer, part_of

BETA, BETA2, EPSILON = 0.9, 0.99, 1e-8


class Store:
    """Weights and state of layers that ranks share, or of a rank's `own` layers, which are not averaged.

    A training step asks for the `weights` of each layer, hands in its gradients (`add`), and calls `update` once.
    """

    def __init__(self, world: World, stage: int, optimizer: str, rate: float, own: bool = False):
        self._world, self._stage, self._optimizer, self._rate = world, stage, optimizer, rate
        self._own = own
        self._layers, self._weights, self._slots, self._gradients, self._steps = [], [], [], {}, 0

    def fill(
        self, layers: list[Layer], seed: int, start: int = 0, whole: list[Layer] = (), tensor: World | None = None
    ):
        """Create the weights and state of layers that follow `start` others in the network.

        In tensor parallelism, `whole` are the unsplit layers, and `tensor` the ranks that split them.
        """
        self._layers = layers

        def matrices():
            for number, layer in enumerate(layers, start):
                first = initial((whole or layers)[number - start].shapes, number, seed)
                yield part_of(layer, first, tensor.rank, tensor.size) if tensor else first

        self._keep(matrices())

    def _keep(self, matrices):
        """Store initial matrices, which come layer by layer."""
        for first in matrices:
            parts = first if self._stage == 0 else [self._world.own(matrix) for matrix in first]
            self._weights.append([tf.Variable(matrix) for matrix in (parts if self._stage == 3 else first)])
            slots = SLOTS[self._optimizer]
            self._slots.append([[tf.Variable(np.zeros_like(part)) for _ in range(slots)] for part in parts])

    def parts(self) -> tuple[dict[str, np.ndarray], dict[str, int]]:
        """Return this rank's parts of weights and state by name, and the lengths of the whole arrays."""
        own = {name: self._world.own(each) if each.shape.rank == 2 else each.numpy() for name, each, _ in self._named()}
        return own, {name: math.prod(shape) for name, _, shape in self._named()}

    def restore(self, step: int, parts: dict[str, np.ndarray]):
        """Continue after `step` with these parts."""
        self._steps = step
        for name, variable, shape in self._named():
            whole = variable.shape.rank == 2
            variable.assign(self._world.whole(parts[name], shape, f"restored.{name}") if whole else parts[name])

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
        kept, layer = self._weights[number], self._layers[number]
        if self._stage < 3:
            return [matrix.value() for matrix in kept]
        return [
            self._world.whole(part.value(), shape, f"weights.{layer.name}.{index}")
            for index, (part, shape) in enumerate(zip(kept, layer.shapes, strict=True))
        ]

    def add(self, number: int, gradients: list):
        """Add a layer's gradients on this rank."""
        name = self._layers[number].name
        if self._stage >= 2:
            gradients = self._reduced(name, gradients)
        self._gradients[number] = gradients

    def update(self):
        """Take a step of the optimizer with the mean of all ranks' gradients."""
        self._steps += 1
        for number, layer in enumerate(self._layers):
            gradients = self._gradients.pop(number)
            if self._stage == 0 and not self._own:
                gradients = [
                    self._world.all_reduce(gradient, f"gradients.{layer.name}.{index}")
                    for index, gradient in enumerate(gradients)
                ]
            elif self._stage == 1:
                gradients = self._reduced(layer.name, gradients)
            for index, gradient in enumerate(gradients):
                self._update_one(self._weights[number][index], self._slots[number][index], gradient, layer, index)

    def _reduced(self, name, gradients):
        """Return this rank's parts of the mean gradients, freeing the whole ones one by one."""
        return [
            self._world.reduce_scatter(gradients.pop(0), f"gradients.{name}.{index}") for index in range(len(gradients))
        ]

    def _update_one(self, matrix, slots, gradient, layer, index):
        if self._stage not in (1, 2):
            self._apply(matrix, slots, gradient)
            return
        own = tf.Variable(self._world.own(matrix))
        self._apply(own, slots, gradient)
        matrix.assign(self._world.whole(own.value(), matrix.shape, f"weights.{layer.name}.{index}"))

    def _apply(self, weights, slots, gradient):
        """Change weights and state in place."""
        if self._optimizer == "sgd":
            tf.raw_ops.ResourceApplyGradientDescent(var=weights.handle, alpha=self._rate, delta=gradient)
        elif self._optimizer == "momentum":
            tf.raw_ops.ResourceApplyMomentum(
                var=weights.handle, accum=slots[0].handle, lr=self._rate, grad=gradient, momentum=BETA
            )
        else:
            adam(weights, slots, gradient, self._rate, self._steps)


def adam(weights, slots, gradient, rate, step):
    """Take step number `step` (from 1) of Adam in place."""
    tf.raw_ops.ResourceApplyAdam(
        var=weights.handle, m=slots[0].handle, v=slots[1].handle, grad=gradient, lr=rate, beta1=BETA, beta2=BETA2,
        beta1_power=BETA**step, beta2_power=BETA2**step, epsilon=EPSILON,
    )  # fmt: skip
