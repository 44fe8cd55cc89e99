"""Harness that runs a reader's code on real ranks, to grade lessons 6, 6b and 6c.

`course.sharding.trial` launches it, and checks each rank's report.
"""

import gc
import os
import shutil
import time
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np

from course.sharding import resharded
from course.sharding.buckets import FINISH, READY, WAIT
from course.sharding.communicator import Ranks
from course.sharding.reader import ByLayer, defined
from course.sharding.sharded import BETA
from ddl.errors import InputError

LATE_S = 0.2  # the last rank comes this much later to a checkpoint


class Momentum:
    """SGD with momentum for a number of weights. (Adam would hide a factor in the gradient.)"""

    def __init__(self, numbers: int, rate: float):
        self._velocity, self._rate = np.zeros(numbers, np.float32), rate

    def change(self, gradient) -> np.ndarray:
        """Return the update of weights with this gradient, float32 ``[n]``."""
        gradient = np.asarray(gradient, np.float32)
        if gradient.shape != self._velocity.shape:
            raise InputError(f"this optimizer is for {len(self._velocity)} numbers, not for {gradient.shape}")
        self._velocity = BETA * self._velocity + gradient
        return -self._rate * self._velocity


def main(file: str) -> None:
    """Call the functions or the class that a file defines, and report the results."""
    with np.load("../given.npz") as arrays:
        given = dict(arrays)
    run, *names = KINDS[str(given.pop("kind"))]
    reported = run(*defined(file, names), given, Ranks())
    np.savez(os.environ["DDL_REPORT"], **{name: np.asarray(value, float) for name, value in reported.items()})


def _by_layer(given, values):
    """Return values of all layers as a dictionary of layers."""
    return dict(zip(given["names"].tolist(), np.split(values.copy(), np.cumsum(given["sizes"])[:-1]), strict=True))


def _zero(kind, given, ranks):
    lengths = []

    def make(numbers):
        lengths.append(int(numbers))
        return Momentum(int(numbers), float(given["rate"]))

    names = given["names"].tolist()
    answer = kind(_by_layer(given, given["weights"]), ranks, make)
    weights, sent, most = [], [], _kept(answer)
    for gradient in given["gradients"][:, ranks.rank]:
        before = ranks.sent
        for name in [*names, *reversed(names)]:  # forward and backward
            answer.gather(name)
        for name, part in reversed(_by_layer(given, gradient).items()):
            answer.reduce(name, part)
            most = max(most, _kept(answer))
        answer.update()
        most = max(most, _kept(answer))
        sent.append(ranks.sent - before)
        weights.append(np.concatenate([answer.gather(name) for name in names]))
    return {"weights": weights, "sent": sent, "state": sum(lengths), "kept": most}


def _kept(answer):
    """Count the numbers in an object's arrays, without its optimizers. A view keeps the whole array alive."""
    seen, left = {}, [answer]
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, type | ModuleType | FunctionType | Momentum | Ranks):
            continue
        whole = value.base if isinstance(value, np.ndarray) else None
        if isinstance(whole, np.ndarray):
            left.append(whole)
        else:
            seen[id(value)] = value
            left += gc.get_referents(value)
    return sum(value.size for value in seen.values() if isinstance(value, np.ndarray))


def _tensor(forward, backward, given, ranks):
    first = np.ascontiguousarray(np.split(given["first"], ranks.size, axis=1)[ranks.rank])
    second = np.split(given["second"], ranks.size)[ranks.rank].copy()
    y, saved = forward(given["x"], first, second, ranks)
    sent = ranks.sent
    of_input, of_first, of_second = backward(saved, given["back"], ranks)
    return {
        "y": y, "of_input": of_input, "of_first": of_first, "of_second": of_second,
        "sent": [sent, ranks.sent - sent],
    }  # fmt: skip


class Watched:
    """A world in which messages and waiting for them are written down."""

    def __init__(self, ranks, events):
        self._ranks, self._events = ranks, events
        self.rank, self.size = ranks.rank, ranks.size

    def start(self, values):
        self._events.append(np.size(values))
        message = self._ranks.start(values)
        message.result = partial(self._waited, message.result)
        return message

    def _waited(self, result):
        self._events.append(WAIT)
        return result()


def _ddp(Flat, Bucketed, given, ranks):
    gradients = _by_layer(given, given["gradients"][ranks.rank])
    reported = {}
    for kind in (Flat, Bucketed):
        for step in (1, 2):  # a new object for each step, whose gradients are twice as large in the second
            events = []
            answer = kind(Watched(ranks, events), int(given["bucket"]))
            for name, gradient in reversed(gradients.items()):
                events.append(READY)
                answer.ready(name, step * gradient)
            events.append(FINISH)
            means = answer.finish()
            reported[f"{kind.__name__}.{step}"] = np.concatenate([np.ravel(means[name]) for name in gradients]) / step
        reported[f"{kind.__name__}.events"] = events
    return reported


class Part:
    """A rank of a world of any size, which only splits."""

    split = Ranks.split

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def barrier(self):
        """Do nothing: there is no other rank."""


def _checkpoint(save, load, given, ranks):
    """Save two checkpoints, and load them in worlds of other sizes, also after the newer one is damaged."""
    folder = Path("../checkpoints")
    folder.mkdir(exist_ok=True)
    reported, files, sent = {"early": []}, set(), 0
    for step in resharded.STEPS:
        whole = {name: given[f"{step}.{name}"] for name in resharded.SIZES}
        shards = {name: ranks.split(array)[ranks.rank].copy() for name, array in whole.items()}
        if ranks.rank == ranks.size - 1:
            time.sleep(LATE_S)
        reported["early"].append((folder / f"{step}.json").exists())
        before, sent = files, sent - ranks.sent
        save(folder, step, shards, {name: len(array) for name, array in whole.items()}, ranks)
        sent += ranks.sent
        ranks.barrier()
        files = {path.name for path in folder.iterdir()}
        ranks.barrier()
    manifest = f"{resharded.STEPS[-1]}.json"
    shard = max(files - before - {manifest}, default=None)
    reported |= {"sent": sent, "new": [manifest in files, shard is not None]}
    if ranks.rank == 0:
        for how in ("whole", *resharded.TEARS) if all(reported["new"]) else ("whole",):
            reported |= _loaded(load, _torn(folder, how, manifest, shard), how)
    return reported


def _torn(folder, how, manifest, shard):
    """Return a copy of checkpoints without the newest manifest or a shard, or with half of a shard."""
    copy = Path(shutil.copytree(folder, folder.with_name(how)))
    if how == "half a shard":
        (copy / shard).write_bytes((folder / shard).read_bytes()[: (folder / shard).stat().st_size // 2])
    elif how != "whole":
        (copy / (manifest if how == "no manifest" else shard)).unlink()
    return copy


def _loaded(load, folder, how):
    """Return the step and the shards of each rank of each world."""
    found = {}
    for world in (Part(rank, size) for size in resharded.WORLDS for rank in range(size)):
        try:
            step, shards = load(folder, world) or (resharded.NOTHING, {})
        except Exception:
            if how == "whole":
                raise
            step, shards = resharded.RAISED, {}
        where = f"{how}.{world.size}.{world.rank}"
        found |= {where: step, **{f"{where}.{name}": shard for name, shard in shards.items()}}
    return found


KINDS = {
    "sharded": (lambda kind, *rest: _zero(partial(ByLayer, kind), *rest), "Sharded"),
    "gradients": (_zero, "GradientsSharded"),
    "fully": (_zero, "FullySharded"),
    "tensor": (_tensor, "forward", "backward"),
    "checkpoint": (_checkpoint, "save", "load"),
    "ddp": (_ddp, "Flat", "Bucketed"),
}
