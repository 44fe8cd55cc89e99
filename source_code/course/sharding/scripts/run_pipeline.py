"""Train a small transformer in a pipeline: each rank is a stage that does a schedule's passes in their order.

    ddl run --workers 2 run_pipeline.py --schedule my_schedule.json
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/run_pipeline.py

The file has a row for each stage: a list of cells such as ["F", 0], ["B", 0] or null. The default is GPipe's. In an
interleaved schedule a rank has several stages, and ["F", 0, 1] is a pass of its second one. A pass begins once its
input is there; no rank waits for the end of a cycle.
"""

import json
from pathlib import Path

from course.training.options import Integer, Number, parser, run, transformer


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--schedule", type=Path, metavar="FILE", help="a table of cycles, as JSON")
    add("--microbatches", type=Integer(), default=8, help="of a step")
    add("--batch", type=Integer(), default=8, help="samples of a microbatch")
    add("--steps", type=Integer(), default=4)
    add("--learning-rate", type=Number(above=0), default=3e-5)
    return transformer(ours, arguments, width=256, depth=8)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time

import tensorflow as tf

from course.sharding import pipeline
from course.sharding.array_store import Store
from course.sharding.communicator import Alone, World
from course.sharding.mail import Mail
from course.sharding.sums import text
from course.sharding.transformer import Chain, layers
from course.training.training_log import Writer
from ddl.errors import InputError


def main(config):
    world = World()
    schedule = read(config.schedule, world.size, config.microbatches)
    stages = world.size * pipeline.chunks(schedule)
    if config.depth % stages:
        raise InputError(f"--depth {config.depth} does not split over {stages} stages")
    writer = Writer(world.rank == 0)
    writer.event("start", steps=config.steps, world=world.size)
    rank = Rank(world, stages, config)
    batches = text((config.steps, config.microbatches, config.batch, config.length + 1), config.seed)
    losses, seconds, busy = [], [], []
    for number, batch in enumerate(batches, 1):
        start = time.perf_counter()
        loss, own = rank.step(batch, schedule)
        seconds.append(time.perf_counter() - start)
        losses.append(float(world.all_reduce(tf.constant(loss), total=True)))  # only the last stage has one
        busy.append(world.all_gather([own]).numpy().ravel().tolist())
        writer.event("step", step=number, seconds=seconds[-1])
        writer.print(f"step {number}: loss {losses[-1]:.6f}, {seconds[-1]:.2f} s")
    kept = world.all_gather([rank.most * world.size / stages]).numpy().ravel().tolist()
    writer.result(
        config={**vars(config), "schedule": str(config.schedule)}, ranks=world.size, schedule=schedule,
        losses=losses, step_seconds=seconds, busy_seconds=busy, kept_microbatches=kept,
    )  # fmt: skip


def read(file, stages, microbatches):
    """Return the schedule in a file, or GPipe's. Raises InputError if it is invalid."""
    if file is None:
        return pipeline.gpipe(stages, microbatches)
    try:
        rows = json.loads(file.read_text())
        schedule = [[tuple(cell) if cell else None for cell in row] for row in rows]
        wrong = "" if len(schedule) == stages else f"it has {len(schedule)} rows for {stages} stages"
        wrong = wrong or pipeline.problem(schedule, microbatches)
    except (OSError, ValueError, TypeError, IndexError) as error:
        wrong = str(error)
    if wrong:
        raise InputError(f"{file} is not a schedule of {microbatches} microbatches on {stages} stages: {wrong}")
    return schedule


class Rank:
    """A rank's stages: the first of all also embeds characters, the last one also computes the loss."""

    def __init__(self, world, stages, config):
        self._world, self._stages, self._config, self._mail = world, stages, config, Mail(world.rank)
        first, *blocks, last = layers(config.width, config.depth, config.heads, config.length)
        each = len(blocks) // stages
        self._stores, self._chains, self._kept = [], {}, {}
        self.most = 0  # passes with live activations at once
        for stage in range(world.rank, stages, world.size):
            own = blocks[stage * each : (stage + 1) * each]
            own = [first] * (stage == 0) + own + [last] * (stage == stages - 1)
            self._stores.append(Store(World(Alone()), 0, config.learning_rate))
            self._stores[-1].fill(own, config.seed)
            self._chains[stage] = Chain(own, self._stores[-1])

    def step(self, batch, schedule):
        """Train on microbatches, int32 ``[m, batch, length + 1]``; return mean loss, and seconds of computation."""
        ranks, losses, busy = self._world.size, [], 0.0
        for cell in filter(None, schedule[self._world.rank]):
            (direction, number), stage = cell[:2], pipeline.stage_of(cell, self._world.rank, ranks)
            begins = stage == (0 if direction == "F" else self._stages - 1)
            x = None if begins else self._mail.receive((direction, number, stage))
            start = time.perf_counter()
            result = self._pass(cell, stage, batch[number], x)
            busy += time.perf_counter() - start
            after = stage + (1 if direction == "F" else -1)
            if 0 <= after < self._stages:
                self._mail.send(after % ranks, (direction, number, after), result.numpy())
            elif direction == "F":
                losses.append(float(result))
        for store in self._stores:
            store.update()
        return sum(losses) / self._config.microbatches, busy

    def _pass(self, cell, stage, batch, arrived):
        """Do a microbatch's forward or backward pass of a stage, and return what the next one needs."""
        shape = (*batch[:, 1:].shape, self._config.width)
        x = None if arrived is None else tf.reshape(arrived, shape)
        if cell[0] == "B":  # the loss is a mean over microbatches
            x = tf.constant(1 / self._config.microbatches) if x is None else x
            return self._chains[stage].backward(self._kept.pop((cell[1], stage)), x)
        x = tf.constant(batch[:, :-1]) if x is None else x
        self._kept[cell[1], stage], result = self._chains[stage].forward(x, tf.constant(batch[:, 1:]))
        self.most = max(self.most, len(self._kept))
        return result


if __name__ == "__main__":
    run(main, config)
