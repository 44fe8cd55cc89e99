"""Try what a reader has written for lesson 6 on real ranks, while it is graded: `course.grader.sharded` judges.

The network is a small autoencoder, that of `course.training.task` with other `SHAPES`. Each rank has its own samples.
"""

import runpy

import numpy as np

from course.training.examiner import examiner
from course.training.task import loss_and_gradients
from ddl.errors import InputError

SHAPES = {"frozen": (6, 8), "tied": (8, 3), "inner": (3,), "outer": (8,)}
BETA = 0.9  # of the momentum


class Momentum:
    """SGD with momentum for so many numbers, whose state is as long. (Adam would hide a factor in the gradient.)"""

    def __init__(self, numbers: int, rate: float):
        self._velocity, self._rate = np.zeros(numbers, np.float32), rate

    def change(self, gradient) -> np.ndarray:
        """Return what to add to the weights that have this gradient, float32 ``[n]``."""
        gradient = np.asarray(gradient, np.float32)
        if gradient.shape != self._velocity.shape:
            raise InputError(f"this optimizer is for {len(self._velocity)} numbers, not for {gradient.shape}")
        self._velocity = BETA * self._velocity + gradient
        return -self._rate * self._velocity


class Ranks:
    """What a reader's code has of the other ranks: `rank`, `size`, and collectives on NumPy arrays."""

    def __init__(self):
        from course.training.world import World  # with TensorFlow, which who judges can do without

        self._world, self._calls = World(), 0
        self.rank, self.size = self._world.rank, self._world.size

    @property
    def sent(self) -> int:
        """How many numbers this rank has sent to others."""
        return self._world.sent

    def split(self, values) -> np.ndarray:
        """Return values in as many equal parts as there are ranks, padded with zeros: float32 ``[ranks, n]``."""
        values = np.asarray(values, np.float32).ravel()
        return np.pad(values, (0, -len(values) % self.size)).reshape(self.size, -1)

    def all_to_all(self, parts) -> np.ndarray:
        """Send ``parts[k]`` to rank k; return what each rank has sent to this one: float32 ``[ranks, n]`` both."""
        parts = np.asarray(parts, np.float32)
        if parts.ndim != 2 or len(parts) != self.size:
            raise InputError(f"all_to_all takes {self.size} parts that are equally long, not the shape {parts.shape}")
        return self._world.all_to_all(parts, self._name()).numpy()

    def all_gather(self, part) -> np.ndarray:
        """Return all ranks' parts, which are equally long: float32 ``[ranks, n]``."""
        return self._world.all_gather(np.asarray(part, np.float32).reshape(-1), self._name()).numpy()

    def all_sum(self, values) -> np.ndarray:
        """Return the sum of all ranks' values: float32, of the same shape."""
        values = np.asarray(values, np.float32)
        return self._world.all_reduce(values, self._name(), total=True).numpy() if self.size > 1 else values

    def _name(self):
        self._calls += 1
        return f"call.{self._calls}"


def main(file: str) -> None:
    """Run the trial of a file that defines what is asked for."""
    given = examiner().given()
    wanted = {"sharded": ["Sharded"], "fully": ["FullySharded"], "tensor": ["forward", "backward"]}[given["kind"]]
    defined = runpy.run_path(file)
    for name in wanted:
        if not callable(defined.get(name)):
            raise InputError(f"it does not define {name}")
    trial = {"sharded": _sharded, "fully": _fully, "tensor": _tensor}[given["kind"]]
    trial(*(defined[name] for name in wanted), given, Ranks())


class _Optimizers:
    """Makes optimizers, and keeps the lengths of their states."""

    def __init__(self, rate):
        self._rate, self.lengths = rate, []

    def __call__(self, numbers):
        self.lengths.append(int(numbers))
        return Momentum(int(numbers), self._rate)


def _sharded(Sharded, given, ranks):
    start = {name: np.array(values, np.float32) for name, values in given["weights"].items()}
    make = _Optimizers(given["rate"])
    answer = Sharded(_vector(start, given["trained"]), ranks, make)
    for numbers in _own(given, ranks):
        samples = np.array(examiner().samples(numbers))
        _, found = loss_and_gradients(start | _named(answer.weights, given["trained"]), samples)
        sent = ranks.sent
        answer.update(_vector(found, given["trained"]).astype(np.float32))
        _note(answer.weights, sent=ranks.sent - sent, lengths=make.lengths)


def _fully(FullySharded, given, ranks):
    start = {name: np.array(values, np.float32) for name, values in given["weights"].items()}
    make, trained = _Optimizers(given["rate"]), given["trained"]
    answer = FullySharded({name: start[name].ravel() for name in trained}, ranks, make)
    most = _kept(answer)
    for numbers in _own(given, ranks):
        samples, sent = np.array(examiner().samples(numbers)), ranks.sent
        for name in trained:  # forward
            answer.gather(name)
        weights = {name: np.reshape(answer.gather(name), SHAPES[name]) for name in trained}  # backward
        _, found = loss_and_gradients(start | weights, samples)
        for name in reversed(trained):
            answer.reduce(name, found[name].ravel().astype(np.float32))
            most = max(most, _kept(answer))
        answer.update()
        sent, most = ranks.sent - sent, max(most, _kept(answer))
        after = np.concatenate([np.ravel(answer.gather(name)) for name in trained])
        _note(after, sent=sent, lengths=make.lengths, kept=most)


def _tensor(forward, backward, given, ranks):
    x, first, second, back = (np.array(given[name], np.float32) for name in ("x", "first", "second", "back"))
    y, saved = forward(x, first, second, ranks)  # its own parts: no rank has more
    sent = ranks.sent
    found = backward(saved, back, ranks)
    names = ("of_input", "of_first", "of_second")
    noted = {name: np.asarray(array, float).tolist() for name, array in zip(names, found, strict=True)}
    examiner().note("step", y=np.asarray(y, float).tolist(), sent=[sent, ranks.sent - sent], **noted)


def _own(given, ranks):
    """Return the numbers of this rank's samples in each step."""
    return [numbers[ranks.rank :: ranks.size] for numbers in given["batches"]]


def _vector(arrays, names):
    return np.concatenate([arrays[name].ravel() for name in names])


def _named(vector, names):
    """Return a vector's arrays by name; InputError, if it has another length."""
    vector, sizes = np.asarray(vector), [int(np.prod(SHAPES[name])) for name in names]
    if vector.shape != (sum(sizes),):
        raise InputError(f"weights has the shape {vector.shape}, not ({sum(sizes)},)")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(SHAPES[name]) for name, part in zip(names, parts, strict=True)}


def _kept(answer):
    """Return how many numbers are in an object's arrays, those of its optimizers left out."""
    seen, count, left = set(), 0, [vars(answer)]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray):
            left.append(value.base)  # a view keeps the whole alive
        elif isinstance(value, np.ndarray):
            count += value.size
        elif isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list | tuple | set):
            left += value
        elif not isinstance(value, Momentum | Ranks):
            left += getattr(value, "__dict__", {}).values()
    return count


def _note(weights, **fields):
    examiner().note("step", weights=np.asarray(weights, float).tolist(), **fields)
