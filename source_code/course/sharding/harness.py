"""Harness that runs a reader's code on real ranks, to grade lessons 6, 6b and 6c.

`course.sharding.sharded` draws weights and gradients, and checks each rank's report.
"""

import os
import time
from pathlib import Path

import numpy as np

from course.sharding.communicator import Ranks
from course.sharding.reader import defined
from course.sharding.sharded import BETA
from ddl.errors import InputError

WANTED = {
    "sharded": ["Sharded"],
    "fully": ["FullySharded"],
    "tensor": ["forward", "backward"],
    "checkpoint": ["save", "load"],
    "ddp": ["Flat", "Bucketed"],
}
READY, FINISH, WAIT = -1, -2, -3  # events of `_ddp`; a message's event is its length
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
    kind = str(given["kind"])
    run = {"sharded": _sharded, "fully": _fully, "tensor": _tensor, "checkpoint": _checkpoint, "ddp": _ddp}[kind]
    reported = run(*defined(file, WANTED[kind]), given, Ranks())
    np.savez(os.environ["DDL_REPORT"], **{name: np.asarray(value, float) for name, value in reported.items()})


def _optimizers(given):
    """Return a function that makes optimizers, and the lengths of their states so far."""
    lengths = []

    def make(numbers):
        lengths.append(int(numbers))
        return Momentum(int(numbers), float(given["rate"]))

    return make, lengths


def _sharded(Sharded, given, ranks):
    make, lengths = _optimizers(given)
    answer = Sharded(given["weights"].copy(), ranks, make)
    weights, sent = [], [0]
    for gradient in given["gradients"][:, ranks.rank]:
        answer.update(gradient.copy())
        weights.append(np.array(answer.weights))
        sent.append(ranks.sent)
    return {"weights": weights, "sent": np.diff(sent), "state": sum(lengths)}


def _fully(FullySharded, given, ranks):
    make, lengths = _optimizers(given)
    names, cuts = given["names"].tolist(), np.cumsum(given["sizes"])[:-1]
    answer = FullySharded(dict(zip(names, np.split(given["weights"].copy(), cuts), strict=True)), ranks, make)
    weights, sent, most = [], [], _kept(answer)
    for gradient in given["gradients"][:, ranks.rank]:
        before = ranks.sent
        for name in [*names, *reversed(names)]:  # forward and backward
            answer.gather(name)
        for name, part in reversed(list(zip(names, np.split(gradient.copy(), cuts), strict=True))):
            answer.reduce(name, part)
            most = max(most, _kept(answer))
        answer.update()
        most = max(most, _kept(answer))
        sent.append(ranks.sent - before)
        weights.append(np.concatenate([np.ravel(answer.gather(name)) for name in names]))
    return {"weights": weights, "sent": sent, "state": sum(lengths), "kept": most}


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
        return Message(self._ranks.start(values), self._events)


class Message:
    """A message on its way."""

    def __init__(self, future, events):
        self._future, self._events = future, events

    def result(self):
        self._events.append(WAIT)
        return self._future.result()


def _ddp(Flat, Bucketed, given, ranks):
    names, cuts = given["names"].tolist(), np.cumsum(given["sizes"])[:-1]
    gradients = dict(zip(names, np.split(given["gradients"][ranks.rank], cuts), strict=True))
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
            reported[f"{kind.__name__}.{step}"] = np.concatenate([np.ravel(means[name]) for name in names]) / step
        reported[f"{kind.__name__}.events"] = events
    return reported


def _checkpoint(save, load, given, ranks):
    """Load what is in the given files, if there are any; otherwise save two checkpoints, and report their files."""
    folder = Path("../checkpoints")
    folder.mkdir(exist_ok=True)
    files = {name.removeprefix("file|"): array for name, array in given.items() if name.startswith("file|")}
    if ranks.rank == 0:
        for name, array in files.items():
            (folder / name).write_bytes(array.astype(np.uint8).tobytes())
    ranks.barrier()
    if files:
        step, parts = load(folder, ranks) or (-1, {})
        return {"step": step, **{f"part|{name}": part for name, part in parts.items()}}
    reported, sent = {"early": []}, 0
    for number, step in enumerate(sorted({int(name.split(".")[0]) for name in given if name != "kind"})):
        whole = {name.split(".")[1]: array for name, array in given.items() if name.startswith(f"{step}.")}
        parts = {name: ranks.split(array)[ranks.rank].copy() for name, array in whole.items()}
        if ranks.rank == ranks.size - 1:
            time.sleep(LATE_S)
        reported["early"].append((folder / f"{step}.json").exists())
        before = ranks.sent
        save(folder, step, parts, {name: len(array) for name, array in whole.items()}, ranks)
        sent += ranks.sent - before
        ranks.barrier()
        for path in folder.iterdir():
            reported[f"file|{number}|{path.name}"] = np.frombuffer(path.read_bytes(), np.uint8)
    return reported | {"sent": sent}


def _kept(answer):
    """Count the numbers in an object's arrays, without its optimizers."""
    seen, count, left = set(), 0, [_attributes(answer)]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            left.append(value.base)  # a view keeps the whole array alive
        elif isinstance(value, np.ndarray):
            count += value.size
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list | tuple | set):
            left += value
        elif not isinstance(value, Momentum | Ranks):
            left.append(_attributes(value))
    return count


def _attributes(value):
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return getattr(value, "__dict__", {}) | {name: getattr(value, name) for name in slots if hasattr(value, name)}
