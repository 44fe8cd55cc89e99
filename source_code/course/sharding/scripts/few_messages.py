"""Train a small transformer with fewer bytes between ranks than an all-reduce of all gradients in each step.

    ddl run --workers 2 few_messages.py --method local --every 16
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/few_messages.py --method top-k

Methods: "all-reduce" averages gradients in each step. "local" trains ranks independently and averages their weights at
intervals (Stich 2019, local SGD). "diloco" takes the mean change as the gradient of an outer step with Nesterov
momentum (Douillard et al. 2023). "int8" rounds gradients to 8 bits, "top-k" sends the largest share of their values;
both add the remainder to the next gradient (error feedback).
"""

from course.training.options import SEED, Integer, Number, parser, run

METHODS = ("all-reduce", "local", "diloco", "int8", "top-k")


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--method", choices=METHODS, default="all-reduce")
    add("--every", type=Integer(), default=16, help="steps between averages: local, diloco")
    add("--outer-rate", type=Number(above=0), default=0.7, help="learning rate of the outer step: diloco")
    add("--share", type=Number(above=0, most=1), default=0.01, help="share of a gradient's values that are sent: top-k")
    add("--no-feedback", action="store_true", help="discard the remainder: int8, top-k")
    add("--width", type=Integer(8, 1024), default=64)
    add("--depth", type=Integer(), default=2)
    add("--length", type=Integer(2), default=32)
    add("--batch", type=Integer(), default=16, help="samples of a rank in a step")
    add("--steps", type=Integer(), default=800)
    add("--learning-rate", type=Number(above=0), default=3e-3)
    add("--seed", type=SEED, default=0)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import math
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.sharding import transformer
from course.sharding.array_store import adam
from course.sharding.communicator import World
from course.sharding.sums import initial, text
from course.training.journal import Writer

HEADS, HELD_OUT, EVALUATIONS = 4, 256, 16
OUTER_MOMENTUM = 0.9


def main(config):
    world = World()
    model = Model(config)
    exchange = Exchange(config, world, model.weights)
    writer = Writer(world.rank == 0)
    writer.event("start", steps=config.steps, world=world.size)
    samples = text((config.steps * config.batch * world.size) * (config.length + 1), config.seed + 1)
    batches = samples.reshape(config.steps, world.size, config.batch, config.length + 1)[:, world.rank]
    held_out = tf.constant(text(HELD_OUT * (config.length + 1), 0).reshape(HELD_OUT, -1))  # held-out
    history, start = [], time.perf_counter()
    due = {math.ceil(config.steps * part / EVALUATIONS) for part in range(1, EVALUATIONS + 1)}
    for number, batch in enumerate(batches, 1):
        loss, gradient = model.loss_and_gradient(tf.constant(batch))
        model.update(exchange.gradient(gradient), number)
        exchange.weights(number)
        if number in due:
            mean = hvd.allreduce(model.weights.value(), name="evaluated")  # not counted
            row = {"step": number, "sent_bytes": exchange.sent_bytes, "loss": float(model.loss(held_out, mean))}
            history.append(row)
            writer.event("step", step=number, samples=number * config.batch * world.size, loss=float(loss))
            writer.print("step {step}: held-out loss {loss:.4f}, {sent_bytes:,} bytes sent".format(**row))
    writer.result(
        config=vars(config), seed=config.seed, ranks=world.size, parameters=int(model.weights.shape[0]),
        history=history, held_out_loss=history[-1]["loss"], sent_bytes=exchange.sent_bytes,
        seconds=time.perf_counter() - start,
    )  # fmt: skip


class Model:
    """The lesson's transformer with its weights in one vector, and Adam."""

    def __init__(self, config):
        self._layers = transformer.layers(config.width, config.depth, HEADS, config.length)
        first = [
            array for number, layer in enumerate(self._layers) for array in initial(layer.shapes, number, config.seed)
        ]
        self._shapes = [array.shape for array in first]
        self.weights = tf.Variable(np.concatenate([array.ravel() for array in first]))
        self._slots = [tf.Variable(tf.zeros_like(self.weights)) for _ in range(2)]
        self._rate = config.learning_rate

    @tf.function(autograph=False)
    def loss_and_gradient(self, batch):
        """Return the mean loss of samples, int32 ``[n, length + 1]``, and its gradient, float32 ``[parameters]``."""
        with tf.GradientTape() as tape:
            loss = self.loss(batch, self.weights.value())
        return loss, tape.gradient(loss, self.weights)

    def update(self, gradient, step):
        """Take a step of Adam."""
        adam(self.weights, self._slots, gradient, self._rate, step)

    @tf.function(autograph=False)
    def loss(self, batch, weights):
        """Return the mean loss of samples with these weights, float32 ``[parameters]``."""
        sizes = [math.prod(shape) for shape in self._shapes]
        matrices = [tf.reshape(part, shape) for part, shape in zip(tf.split(weights, sizes), self._shapes, strict=True)]
        x, targets = batch[:, :-1], batch[:, 1:]
        for layer in self._layers[:-1]:
            through = layer.function(x, *(matrices.pop(0) for _ in layer.shapes))
            x = x + through if layer.residual else through
        return self._layers[-1].function(x, targets, *matrices)


class Exchange:
    """Communication between ranks; `sent_bytes` counts this rank's bytes."""

    def __init__(self, config, world, weights):
        self._config, self._world, self._weights = config, world, weights
        self._left = tf.zeros_like(weights)  # of earlier gradients: error feedback
        self._common = tf.Variable(weights.value())  # all ranks' weights at the last synchronization
        self._momentum = tf.zeros_like(weights)
        self._bytes = 0

    @property
    def sent_bytes(self):
        return self._bytes + 4 * self._world.sent

    def gradient(self, gradient):
        """Return the gradient to apply: the mean over ranks, or this rank's own if weights are averaged."""
        method = self._config.method
        if method == "all-reduce":
            return self._world.all_reduce(gradient, "gradient")
        if method in ("local", "diloco"):
            return gradient
        wanted = gradient + self._left
        mean, own = (self._rounded if method == "int8" else self._largest)(wanted)
        if not self._config.no_feedback:
            self._left = wanted - own
        return mean

    def weights(self, step):
        """Average the weights or take an outer step, if due."""
        if self._config.method not in ("local", "diloco") or step % self._config.every:
            return
        mean = self._world.all_reduce(self._weights.value(), "weights")
        if self._config.method == "diloco":
            change = self._common - mean  # the outer gradient
            self._momentum = OUTER_MOMENTUM * self._momentum + change
            mean = self._common - self._config.outer_rate * (OUTER_MOMENTUM * self._momentum + change)
            self._common.assign(mean)
        self._weights.assign(mean)

    def _rounded(self, wanted):
        """Send 8 bits of each value; return the mean over ranks and this rank's rounded values."""
        scale = tf.reduce_max(tf.abs(wanted)) / 127
        levels = tf.cast(tf.round(tf.math.divide_no_nan(wanted, scale)), tf.int8)
        self._bytes += (self._world.size - 1) * (levels.shape[0] + 4)
        every = tf.reshape(hvd.allgather(levels, name="levels"), [self._world.size, -1])
        scales = hvd.allgather(scale[None], name="scales")
        values = tf.cast(every, tf.float32) * scales[:, None]
        return tf.reduce_mean(values, 0), values[self._world.rank]

    def _largest(self, wanted):
        """Send the largest values and their positions; return the mean over ranks and this rank's contribution."""
        count = max(1, int(self._config.share * wanted.shape[0]))
        places = tf.math.top_k(tf.abs(wanted), count).indices
        self._bytes += (self._world.size - 1) * 8 * count
        every_place = hvd.allgather(places, name="places")
        every_value = hvd.allgather(tf.gather(wanted, places), name="values")
        total = tf.scatter_nd(every_place[:, None], every_value, wanted.shape)
        own = tf.scatter_nd(places[:, None], tf.gather(wanted, places), wanted.shape)
        return total / self._world.size, own


if __name__ == "__main__":
    run(main, config)
