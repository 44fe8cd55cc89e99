"""Train a small transformer in a pipeline: each rank is a stage that follows a schedule, cycle by cycle.

    ddl run --workers 2 run_pipeline.py --schedule my_schedule.json
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/run_pipeline.py

The file has a row for each stage: a list of cells such as ["F", 0], ["B", 0] or null. The default is GPipe's.
"""

import json
from pathlib import Path

from course.training.options import Integer, Number, parser, run, transformer


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--schedule", type=Path, metavar="FILE", help="a table of cycles, as JSON")
    add("--microbatches", type=Integer(), default=8, help="of a step")
    add("--batch", type=Integer(), default=8, help="samples of a microbatch")
    add("--steps", type=Integer(), default=4)
    add("--learning-rate", type=Number(above=0), default=3e-5)
    return transformer(ours, arguments, width=256, depth=8)


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import time

import numpy as np
import tensorflow as tf

from course.sharding import pipeline
from course.sharding.array_store import Store
from course.sharding.communicator import World
from course.sharding.sums import text
from course.sharding.transformer import gradients, layers, record
from course.training.journal import Writer
from ddl.errors import InputError


def main(config):
    world = World()
    if config.depth % world.size:
        raise InputError(f"--depth {config.depth} does not split over {world.size} stages")
    schedule = read(config.schedule, world.size, config.microbatches)
    writer = Writer(world.rank == 0)
    writer.event("start", steps=config.steps, world=world.size)
    stage = Stage(world, config)
    shape = (config.steps, config.microbatches, config.batch, config.length + 1)
    batches = text(int(np.prod(shape)), config.seed).reshape(shape)
    losses, seconds, busy = [], [], []
    for number, batch in enumerate(batches, 1):
        start = time.perf_counter()
        loss, own = stage.step(batch, schedule)
        seconds.append(time.perf_counter() - start)
        stage.update()
        losses.append(float(world.all_reduce(tf.constant(loss), "loss", total=True)))  # only the last stage has one
        busy.append(world.all_gather([own], "busy").numpy().ravel().tolist())
        writer.event("step", step=number, seconds=seconds[-1])
        writer.print(f"step {number}: loss {losses[-1]:.6f}, {seconds[-1]:.2f} s")
    kept = world.all_gather([float(stage.most)], "kept").numpy().ravel().tolist()
    writer.result(
        config={**vars(config), "schedule": str(config.schedule)}, ranks=world.size, schedule=schedule,
        losses=losses, step_seconds=seconds, busy_seconds=busy, kept_microbatches=[int(each) for each in kept],
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


class Stage:
    """This rank's layers: the first stage also embeds characters, the last one also computes the loss."""

    def __init__(self, world, config):
        self._world, self._config = world, config
        whole = layers(config.width, config.depth, config.heads, config.length)
        each = 2 * config.depth // world.size  # attention and perceptron are two layers
        first, end = 1 + each * world.rank, 1 + each * (world.rank + 1)
        self._is_first, self._is_last = world.rank == 0, world.rank == world.size - 1
        numbers = range(first - self._is_first, end + self._is_last)
        self._layers = [whole[number] for number in numbers]
        self._store = Store(world, 0, "adam", config.learning_rate, own=True)
        self._store.fill(self._layers, config.seed, start=numbers[0])
        self._records, self._gradients = {}, {}
        self.most = 0  # peak number of microbatches with live activations

    def step(self, batch, schedule):
        """Train on microbatches, int32 ``[m, batch, length + 1]``; return mean loss, and seconds of computation."""
        arrived, losses, busy = {}, [], 0.0
        for cycle, cell in enumerate(schedule[self._world.rank]):
            start, messages = time.perf_counter(), {}
            if cell and cell[0] == "F":
                result = self._forward(cell[1], batch[cell[1]], arrived.pop(("F", cell[1]), None))
                if self._is_last:
                    losses.append(float(result))
                else:
                    messages[self._world.rank + 1] = result
            elif cell:
                back = self._backward(cell[1], arrived.pop(("B", cell[1]), None))
                if not self._is_first:
                    messages[self._world.rank - 1] = back
            busy += time.perf_counter() - start
            for sender, values in self._world.pass_on(messages, f"cycle.{cycle}").items():
                arrived[schedule[sender][cycle]] = values  # the sender's task in this cycle
        return sum(losses) / self._config.microbatches, busy

    def _forward(self, number, batch, x):
        targets = tf.constant(batch[:, 1:])
        x = tf.constant(batch[:, :-1]) if self._is_first else tf.reshape(x, [*targets.shape, self._config.width])
        records = []
        for index, layer in enumerate(self._layers):
            final = self._is_last and index == len(self._layers) - 1
            records.append(record(layer, x, self._store.weights(index), *([targets] if final else [])))
            x = x + records[-1].result if layer.residual else records[-1].result
        self._records[number] = records
        self.most = max(self.most, len(self._records))
        return x

    def _backward(self, number, back):
        records = self._records.pop(number)
        back = None if self._is_last else tf.reshape(back, records[-1].result.shape)
        for index in reversed(range(len(self._layers))):
            through, of_weights = gradients(records.pop(), back)
            total = self._gradients.get(index)
            self._gradients[index] = [a + b for a, b in zip(total, of_weights)] if total else of_weights
            back = back + through if self._layers[index].residual else through
        return back

    def update(self):
        """Take a step with the mean of all microbatches' gradients."""
        for index, total in self._gradients.items():
            self._store.add(index, [gradient / self._config.microbatches for gradient in total])
        self._gradients.clear()
        self._store.update()


if __name__ == "__main__":
    run(main, config)
