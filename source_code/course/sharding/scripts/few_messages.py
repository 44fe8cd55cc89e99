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


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--method", choices=METHODS, default="all-reduce")
    add("--every", type=Integer(), default=16, help="steps between averages: local, diloco")
    add("--share", type=Number(above=0, most=1), default=0.01, help="share of a gradient's values that are sent: top-k")
    add("--no-feedback", action="store_true", help="discard the remainder: int8, top-k")
    add("--width", type=Integer(8, 1024), default=64)
    add("--depth", type=Integer(), default=2)
    add("--length", type=Integer(2), default=32)
    add("--batch", type=Integer(), default=16, help="samples of a rank in a step")
    add("--steps", type=Integer(), default=800)
    add("--seed", type=SEED, default=0)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import math
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.sharding.communicator import World
from course.sharding.reader import ByLayer, ReadersStore
from course.sharding.sums import text
from course.sharding.transformer import Chain, layers
from course.training.training_log import Writer

HEADS, HELD_OUT, EVALUATIONS, RATE = 4, 256, 16, 3e-3
OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.9


def main(config):
    world = World()
    network = layers(config.width, config.depth, HEADS, config.length)
    store = ReadersStore(world, partial(ByLayer, partial(Exchange, config)), RATE)
    store.fill(network, config.seed)
    exchange = store.answer.answer
    writer = Writer(world.rank == 0)
    writer.event("start", steps=config.steps, world=world.size)
    shape = config.steps, world.size, config.batch, config.length + 1
    batches, held_out = text(shape, config.seed + 1)[:, world.rank], text((HELD_OUT, config.length + 1), 0)
    training, evaluation, history = Chain(network, store), Chain(network, store, recompute=True), []
    due = {math.ceil(config.steps * part / EVALUATIONS) for part in range(1, EVALUATIONS + 1)}
    for number, batch in enumerate(batches, 1):
        kept, loss = training.forward(tf.constant(batch[:, :-1]), tf.constant(batch[:, 1:]))
        training.backward(kept)
        store.update()
        if number in due:
            own, exchange.weights = exchange.weights, hvd.allreduce(exchange.weights).numpy()  # not counted
            held_out_loss = float(evaluation.forward(tf.constant(held_out[:, :-1]), tf.constant(held_out[:, 1:]))[1])
            exchange.weights = own
            row = {"step": number, "sent_bytes": exchange.sent_bytes, "loss": held_out_loss}
            history.append(row)
            writer.event("step", step=number, samples=number * config.batch * world.size, loss=float(loss))
            writer.print("step {step}: held-out loss {loss:.4f}, {sent_bytes:,} bytes sent".format(**row))
    writer.result(
        config=vars(config), seed=config.seed, ranks=world.size, parameters=len(exchange.weights),
        history=history, held_out_loss=history[-1]["loss"], sent_bytes=exchange.sent_bytes,
    )  # fmt: skip


class Exchange:
    """An update like a reader's class Sharded, with fewer messages; `sent_bytes` counts this rank's bytes."""

    def __init__(self, config, weights, ranks, optimizer):
        self._config, self._ranks, self._optimizer = config, ranks, optimizer(len(weights))
        self.weights, self._common = weights, weights  # the latter are all ranks' at the last average
        self._left = self._momentum = np.zeros_like(weights)  # left: of earlier gradients, for error feedback
        self._step = self._bytes = 0

    @property
    def sent_bytes(self):
        return self._bytes + 4 * self._ranks.sent

    def update(self, gradient):
        """Change the weights; `gradient` is this rank's."""
        self._step += 1
        self.weights = self.weights + self._optimizer.change(self.gradient(gradient))
        if self._config.method in ("local", "diloco") and self._step % self._config.every == 0:
            self.weights = self._averaged()

    def gradient(self, gradient):
        """Return the gradient to apply: the mean over ranks, or this rank's own if weights are averaged."""
        method = self._config.method
        if method == "all-reduce":
            return self._ranks.all_sum(gradient) / self._ranks.size
        if method in ("local", "diloco"):
            return gradient
        wanted = gradient + self._left
        mean, own = (self._rounded if method == "int8" else self._largest)(wanted)
        if not self._config.no_feedback:
            self._left = wanted - own
        return mean

    def _averaged(self):
        """Return the mean weights of all ranks, or those after an outer step."""
        mean = self._ranks.all_sum(self.weights) / self._ranks.size
        if self._config.method == "diloco":
            change = self._common - mean  # the outer gradient
            self._momentum = OUTER_MOMENTUM * self._momentum + change
            mean = self._common - OUTER_RATE * (OUTER_MOMENTUM * self._momentum + change)
            self._common = mean
        return mean

    def _rounded(self, wanted):
        """Send 8 bits of each value; return the mean over ranks and this rank's rounded values."""
        scale = np.abs(wanted).max() / np.float32(127)
        levels = np.rint(wanted / scale if scale else wanted).astype(np.int8)
        self._bytes += (self._ranks.size - 1) * (len(levels) + 4)
        every = hvd.allgather(levels).numpy().reshape(self._ranks.size, -1)
        values = every * hvd.allgather(np.array([scale])).numpy()[:, None]
        return values.mean(0), values[self._ranks.rank]

    def _largest(self, wanted):
        """Send the largest values and their positions; return the mean over ranks and this rank's contribution."""
        count = max(1, int(self._config.share * len(wanted)))
        places = np.argpartition(-np.abs(wanted), count - 1)[:count].astype(np.int32)
        self._bytes += (self._ranks.size - 1) * 8 * count
        total, own = np.zeros_like(wanted), np.zeros_like(wanted)
        np.add.at(total, hvd.allgather(places).numpy(), hvd.allgather(wanted[places]).numpy())
        own[places] = wanted[places]
        return total / self._ranks.size, own


if __name__ == "__main__":
    run(main, config)
