"""Train a small transformer that adds numbers, and measure the memory of a rank.

    ddl run --workers 2 train_transformer.py --stage 1
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/train_transformer.py --stage 1

--stage is ZeRO's: 0 replicates everything, 1 shards the optimizer's state, 2 also the gradients, 3 also the weights.
--tensor splits each layer instead: ranks then see the same samples.
"""

from course.training.options import Integer, Number, parser, run, transformer


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--batch", type=Integer(), default=4, help="samples of a rank in a step")
    add("--steps", type=Integer(), default=5)
    add("--optimizer", choices=("sgd", "momentum", "adam"), default="adam")
    add("--learning-rate", type=Number(above=0), default=1e-4)
    add("--stage", type=Integer(0, 3), default=0, help="of ZeRO; 3 comes with --checkpoint")
    add("--tensor", action="store_true", help="tensor parallelism instead of data parallelism")
    add("--checkpoint", action="store_true", help="keep only each layer's input and recompute the rest")
    config = transformer(ours, arguments, width=512, depth=6)
    if config.tensor and config.stage:
        ours.error("--tensor and --stage are alternatives: choose one")
    config.checkpoint |= config.stage == 3  # otherwise the backward pass would keep the gathered weights
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import time

import tensorflow as tf

from course.sharding.array_store import Store
from course.sharding.communicator import World
from course.sharding.memory_stats import Memory
from course.sharding.sums import text
from course.sharding.transformer import gradients, layers, record
from course.training.journal import Writer
from ddl.errors import InputError


def main(config):
    world = World()
    if config.tensor and config.heads % world.size:
        raise InputError(f"--heads {config.heads} do not split over {world.size} ranks")
    writer = Writer(world.rank == 0)
    samples = config.batch * (1 if config.tensor else world.size)
    batches = text(config.steps * samples * (config.length + 1), config.seed)
    batches = batches.reshape(config.steps, samples, config.length + 1)
    if not config.tensor:  # each rank has different samples
        batches = batches[:, world.rank :: world.size]

    Training(world, config, width=config.heads).step(batches[0])  # a warm-up
    memory = Memory()
    training = Training(world, config, memory=memory)
    writer.event("start", steps=config.steps, world=world.size)
    losses, seconds = [], []
    for number, batch in enumerate(batches, 1):
        sent, start = world.sent, time.perf_counter()
        own = training.step(batch)
        sent = world.sent - sent  # averaging losses, and memory below, is not part of training
        loss = float(world.all_reduce(own, "loss"))
        seconds.append(time.perf_counter() - start)
        losses.append(loss)
        writer.event("step", step=number, seconds=seconds[-1])
        writer.print(f"step {number}: loss {loss:.6f}, {seconds[-1]:.2f} s")
    peak, resident = memory.peak(), memory.resident_peak()
    most = world.all_gather([peak / 2**20, resident / 2**20], "memory").numpy().max(axis=0)
    writer.print(f"at most {most[0]:,.0f} MiB in tensors, {most[1]:,.0f} MiB of resident memory")
    writer.result(
        config=vars(config), ranks=world.size, losses=losses, step_seconds=seconds,
        sent_bytes=4 * sent, alive_bytes=training.alive,
        peak_bytes=round(2**20 * float(most[0])), resident_bytes=round(2**20 * float(most[1])),
    )  # fmt: skip


class Training:
    """A network and its store; a step goes through the layers one by one, forward and back."""

    def __init__(self, world, config, width=None, memory=None):
        shape = (width or config.width, config.depth, config.heads, config.length)
        self._world, self._config, self._memory = world, config, memory
        self._layers = layers(*shape, ranks=world.size if config.tensor else 1)
        self.store = Store(world, config.stage, config.optimizer, config.learning_rate, config.tensor)
        self.store.fill(self._layers, config.seed, layers(*shape) if config.tensor else None)
        self._kept = memory.alive() if memory else 0
        self.alive = {"weights and state": self._kept}  # bytes by what they are for

    def step(self, batch):
        """Train on samples, int32 ``[batch, length + 1]``, and return their mean loss."""
        x, targets = tf.constant(batch[:, :-1]), tf.constant(batch[:, 1:])
        last, records = len(self._layers) - 1, []
        for number, layer in enumerate(self._layers[:-1]):
            weights = self.store.weights(number)
            if self._config.checkpoint:
                records.append(x)  # but no intermediate results
                x = self._added(layer, x, layer.function(x, *weights))
            else:
                records.append(record(layer, x, weights))
                x = self._added(layer, x, records[-1].result)
            del weights
        self._note("activations")
        final = record(self._layers[last], x, self.store.weights(last), targets)
        loss = final.result
        back, of_weights = gradients(final)
        del final, x
        self.store.add(last, of_weights)
        for number, layer in reversed(list(enumerate(self._layers[:-1]))):
            kept = records.pop()
            if self._config.checkpoint:
                kept = record(layer, kept, self.store.weights(number))  # computed again
            through, of_weights = gradients(kept, back)
            del kept
            self.store.add(number, of_weights)
            back = self._added(layer, back, through)
        self._note("gradients")
        self.store.update()
        return loss

    def _added(self, layer, around, through):
        """Return a layer's input plus its output, summed over ranks in tensor parallelism."""
        if not layer.residual:
            return through
        if self._config.tensor:
            through = self._world.all_reduce(through, layer.name, total=True)
        return around + through

    def _note(self, kind):
        if self._memory:
            self.alive[kind] = self._memory.alive() - self._kept


if __name__ == "__main__":
    run(main, config)
