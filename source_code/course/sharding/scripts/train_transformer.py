"""Train a small transformer that adds numbers, and measure the memory of a rank.

    ddl run --workers 2 train_transformer.py --stage 1
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/train_transformer.py --stage 1

--stage is ZeRO's: 0 replicates everything, 1 shards the optimizer's state, 2 also the gradients, 3 also the weights.
--update trains with your own class Sharded instead (lesson 6). --tensor 2 lets two ranks split each layer: they see the
same samples. With --checkpoint-every, ranks write their shards, and a later run continues with any number of ranks, as
long as ranks x --batch, the global batch, stays the same.
"""

from pathlib import Path

from course.training.options import Integer, Number, parser, run, transformer


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--batch", type=Integer(), default=4, help="samples of a rank in a step")
    add("--steps", type=Integer(), default=5)
    add("--learning-rate", type=Number(above=0), default=3e-5)
    add("--stage", type=Integer(0, 3), default=0, help="of ZeRO; 3 comes with --checkpoint")
    add("--update", type=Path, metavar="FILE", help="class Sharded to use in place of a stage, or FILE:CLASS")
    add("--prefetch", action="store_true", help="gather the next layer of such a class while this one computes")
    add("--tensor", type=Integer(), default=1, metavar="RANKS", help="ranks that split each layer")
    add("--sequence", action="store_true", help="split what is between those layers by positions")
    add("--mesh", type=Path, metavar="FILE", help="JSON: groups of ranks that average gradients, and that split layers")
    add("--checkpoint", action="store_true", help="keep only each layer's input and recompute the rest")
    every = "write all ranks' shards (default: never)"
    add("--checkpoint-every", type=Integer(0), default=0, metavar="STEPS", help=every)
    add("--checkpoints", type=Path, metavar="FOLDER", help="where checkpoints are (default: in the run's folder)")
    add("--save-with", type=Path, metavar="FILE", help="functions save and load to use for checkpoints")
    config = transformer(ours, arguments, width=512, depth=6)
    if config.update and config.stage:
        ours.error("--update and --stage are alternatives: choose one")
    config.checkpoint |= config.stage == 3  # otherwise the backward pass would keep the gathered weights
    return config


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import json
import time

import tensorflow as tf

from course.sharding.array_store import Store
from course.sharding.communicator import Ranks, World, meshed
from course.sharding.memory_stats import Memory
from course.sharding.reader import ReadersStore, defined, trained_by
from course.sharding.sequence import Sequence
from course.sharding.shards import load, save
from course.sharding.splits import mesh
from course.sharding.sums import text
from course.sharding.transformer import Chain, layers
from course.training.checkpoint import folder
from course.training.training_log import Writer
from ddl.errors import InputError


def main(config):
    world, data, tensor = worlds(config)
    writer = Writer(world.rank == 0)
    batches = text((config.steps, config.batch * data.size, config.length + 1), config.seed)
    batches = batches[:, data.rank :: data.size]  # each rank of `data` has different samples

    Training(data, tensor, config, width=config.heads).step(batches[0])  # a warm-up
    memory = Memory()
    training = Training(data, tensor, config, memory=memory)
    checkpoints = Checkpoints(config, world, data, tensor)
    begun = checkpoints.resume(training.store)
    writer.event("start", steps=config.steps, world=world.size, step=begun, resumed_at=[begun] if begun else [])
    losses, seconds = [], []
    for number, batch in enumerate(batches[begun:], begun + 1):
        sent, start = data.sent + tensor.sent, time.perf_counter()
        own = training.step(batch)
        sent = data.sent + tensor.sent - sent  # averaging losses, and memory below, is not part of training
        losses.append(float(data.all_reduce(own)))
        seconds.append(time.perf_counter() - start)
        checkpoints.save_if_due(number, training.store)
        writer.event("step", step=number, seconds=seconds[-1], loss=losses[-1])
        writer.print(f"step {number}: loss {losses[-1]:.6f}, {seconds[-1]:.2f} s")
    if not losses:
        raise InputError(f"the checkpoint is of step {begun}, and --steps {config.steps} end there")
    peaks = [memory.alive("peak") / 2**20, memory.resident_peak() / 2**20]
    most = world.all_gather(peaks).numpy().max(axis=0)
    writer.print(f"at most {most[0]:,.0f} MiB in tensors, {most[1]:,.0f} MiB of resident memory")
    writer.result(
        config={name: str(value) if isinstance(value, Path) else value for name, value in vars(config).items()},
        ranks=world.size, losses=losses, step_seconds=seconds, resumed_at=begun,
        sent_bytes=4 * sent, alive_bytes=training.alive, state_bytes=4 * training.store.state_numbers,
        peak_bytes=round(2**20 * float(most[0])), resident_bytes=round(2**20 * float(most[1])),
        timeline=getattr(training.store, "timeline", {}),
    )  # fmt: skip


def worlds(config) -> list[World]:
    """Return all ranks, those that average this rank's gradients, and those that split its layers."""
    world = World()
    axes = json.loads(config.mesh.read_text()) if config.mesh else None
    if not axes and world.size % config.tensor:
        raise InputError(f"{world.size} ranks do not split into groups of --tensor {config.tensor}")
    data, tensor = meshed(axes or mesh(world.size, config.tensor))
    for name, value in (("heads", config.heads), ("length", config.length if config.sequence else 0)):
        if value % tensor.size:
            raise InputError(f"--{name} {value} do not split over {tensor.size} ranks")
    return [world, data, tensor]


class Checkpoints:
    """A training's checkpoints in shards, written and read by the course's functions or the reader's."""

    def __init__(self, config, world, data, tensor):
        self._every, self._world, self._ranks = config.checkpoint_every, world, Ranks(data)
        self._save, self._load = defined(config.save_with, ["save", "load"]) if config.save_with else (save, load)
        if self._every:
            self._folder = config.checkpoints or folder().path / "checkpoints"
            if tensor.size > 1:  # each shard of the layers on its own: such a checkpoint needs the same `tensor`
                self._folder = self._folder / f"{tensor.rank}-of-{tensor.size}"
            self._folder.mkdir(parents=True, exist_ok=True)

    def resume(self, store) -> int:
        """Restore the newest whole checkpoint and return its step, or 0."""
        found = self._load(self._folder, self._ranks) if self._every else None
        step, shards = found or (0, None)
        steps = self._world.all_gather([float(step)]).numpy().ravel()
        if len(set(steps)) > 1:
            raise InputError(f"ranks found checkpoints of different steps: {sorted(set(steps))}")
        if step:
            store.restore(step, shards)
        return step

    def save_if_due(self, step, store):
        if self._every and step % self._every == 0:
            self._save(self._folder, step, *store.shards(), self._ranks)


class Training:
    """A network and its store; `alive` has bytes by what they are for, the least of all steps."""

    def __init__(self, data, tensor, config, width=None, memory=None):
        self.store, recompute = Store(data, config.stage, config.learning_rate), config.checkpoint
        if config.update:
            kind = trained_by(config.update)
            self.store = ReadersStore(data, kind, config.learning_rate, config.prefetch)
            recompute |= getattr(kind, "__name__", "") == "FullySharded"  # its gathered weights would be kept
        sequence = Sequence(tensor) if config.sequence else None
        shape = width or config.width, config.depth, config.heads, config.length
        own = layers(*shape, shard=(tensor.rank, tensor.size), sequence=sequence)
        self.store.fill(own, config.seed)
        self._memory, self._kept = memory, memory.alive() if memory else 0
        self.alive = {"weights and state": self._kept}
        merge = tf.identity if sequence else lambda values: tensor.all_reduce(values, total=True)
        self._chain = Chain(own, self.store, recompute, merge, lambda: self._note("activations"))

    def step(self, batch):
        """Train on samples, int32 ``[batch, length + 1]``, and return their mean loss."""
        kept, loss = self._chain.forward(tf.constant(batch[:, :-1]), tf.constant(batch[:, 1:]))
        self._chain.backward(kept)
        self._note("gradients")
        self.store.update()
        return loss

    def _note(self, kind):
        if self._memory:
            alive = self._memory.alive() - self._kept  # Horovod frees some messages a step late
            self.alive[kind] = min(alive, self.alive.get(kind, alive))


if __name__ == "__main__":
    run(main, config)
