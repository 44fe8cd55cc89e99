"""Checks for a reader's sharding code: the launched questions of lessons 6 and 6b.

A test draws weights, and gradients for each rank (`trial`); `course.sharding.harness` runs the reader's code on real
ranks and reports its weights after each step. This module computes twins of that training: a correct one, and one for
each common mistake. The twin with the same weights shows which mistakes were made. Each has its own check, which raises
AssertionError with one sentence.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from course.grader.launches import Rank, launched, require

STEPS, BETA = 3, 0.9
CLOSE = 1e-4  # of the way from the initial weights; float32 rounds to about 1e-6
EVEN = {"first": 24, "second": 8}  # 32 weights, which 1, 2 and 4 ranks divide
ODD = {"first": 24, "second": 3, "third": 8}  # 35
WIDTH, HIDDEN = 5, 12  # of the two matrices in tensor parallelism


@dataclass(frozen=True)
class Trial:
    """A launch: the arrays that ranks were given, and the arrays that they reported."""

    file: str
    given: dict[str, np.ndarray]
    ranks: list[Rank]

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def fully(self) -> bool:
        return str(self.given["kind"]) == "fully"

    @property
    def layers(self) -> list[int]:
        """Number of weights sharded together: all, or each layer separately."""
        sizes = self.given["sizes"].tolist()
        return sizes if self.fully else [sum(sizes)]

    @property
    def part(self) -> int:
        """Number of weights per rank, including padding."""
        return sum(-(-layer // self.size) for layer in self.layers)

    def where(self, step=None):
        return f"{self.file} on {self.size} ranks" + ("" if step is None else f", step {step + 1}")

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return all ranks' reports of that name, float64 ``[ranks, *shape]``."""
        found = [rank.arrays.get(name, np.zeros(0)) for rank in self.ranks]
        for rank, array in enumerate(found):
            require(
                array.shape == shape, f"{self.where()}: rank {rank}'s {name} has the shape {array.shape}, not {shape}"
            )
        return np.array(found, float)

    @cached_property
    def mistakes(self) -> dict[str, str] | None:
        """The mistakes of the matching twin, {check: description}; None if no twin matches."""
        found = self.read("weights", (STEPS, sum(self.layers))).swapaxes(0, 1)
        way = None
        for mistakes, weights in _twins(self):
            way = way or np.abs(weights[-1, 0] - self.given["weights"]).max()  # the first twin is correct
            if np.abs(found - weights).max() < CLOSE * way:
                return mistakes
        return None


def trial(file: str, ranks: int, seed: int, kind: str = "sharded", layers: dict[str, int] = EVEN) -> Trial:
    """Run a file that defines ``Sharded`` or, if `kind` is "fully", ``FullySharded`` with data of a seed.

    Raises AssertionError if the file is missing, fails or times out.
    """
    draw, count = np.random.default_rng([seed, ranks]), sum(layers.values())
    given = {
        "kind": np.array(kind),
        "names": np.array(list(layers)),
        "sizes": np.array(list(layers.values())),
        "weights": draw.normal(size=count).astype(np.float32),
        "gradients": draw.normal(size=(STEPS, ranks, count)).astype(np.float32),
        "rate": np.array(round(float(draw.uniform(0.2, 0.4)), 2)),
    }
    return Trial(file, given, launched(file, ranks, {"given.npz": given}, program="course.sharding.harness"))


def tensor_trial(file: str, ranks: int, seed: int) -> Trial:
    """Run the two functions of tensor parallelism once, on matrices of a seed."""
    draw = np.random.default_rng([seed, ranks])
    shapes = {"x": (4, WIDTH), "first": (WIDTH, HIDDEN), "second": (HIDDEN, WIDTH), "back": (4, WIDTH)}
    given = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    given["kind"] = np.array("tensor")
    return Trial(file, given, launched(file, ranks, {"given.npz": given}, program="course.sharding.harness"))


# ---------------------------------------------------------------- the checks of ZeRO


def same_weights(t: Trial) -> None:
    """Compare all ranks' weights after each step with a single device's."""
    _refuse(t, *(t.mistakes or ()))


def averaged(t: Trial) -> None:
    """Look for an update with the sum of all ranks' gradients, or with one rank's own."""
    _refuse(t, "averaged")


def gathered(t: Trial) -> None:
    """Look for updated parts that do not reach all ranks."""
    _refuse(t, "gathered")


def padded(t: Trial) -> None:
    """Look for weights that are left over or shifted because the ranks do not divide them."""
    _refuse(t, "padded")


def state_shared(t: Trial) -> None:
    """Look for optimizer state that is longer than a rank's part."""
    for rank, length in enumerate(t.read("state", ())):
        require(
            length <= t.part,
            f"{t.where()}: rank {rank}'s optimizer has a state of {length:g} numbers; its part of the "
            f"{sum(t.layers)} weights is {t.part}",
        )


def few_bytes(t: Trial) -> None:
    """Look for more messages than are needed."""
    what = "two gathers and one exchange" if t.fully else "one exchange and one gather"
    wanted = (3 if t.fully else 2) * (t.size - 1) * t.part
    for rank, steps in enumerate(t.read("sent", (STEPS,))):
        require(
            max(steps) <= wanted,
            f"{t.where()}: rank {rank} sent {max(steps):g} numbers in a step; {what} of {t.part} with {t.size - 1} "
            f"others are {wanted}",
        )


def little_kept(t: Trial) -> None:
    """Look for stored weights or gradients of other ranks' parts (ZeRO's third stage)."""
    for rank, kept in enumerate(t.read("kept", ())):
        require(
            kept <= 2 * t.part,
            f"{t.where()}: rank {rank} kept {kept:g} numbers in its arrays at once; its parts of weights and gradients "
            f"are {2 * t.part}",
        )


def _refuse(t, *mistakes):
    require(t.mistakes is not None, f"{t.where()}: the weights match neither a single device nor a usual mistake")
    found = [t.mistakes[each] for each in mistakes if each in t.mistakes]
    require(not found, f"{t.where()}: {'; '.join(found)}")


# ---------------------------------------------------------------- the checks of tensor parallelism


def forward_equal(t: Trial) -> None:
    """Compare the result on each rank with the whole layer's."""
    _compare(t, "y", "result is not the whole layer's")


def input_gradient(t: Trial) -> None:
    """Compare the input's gradient on each rank with the whole layer's."""
    _compare(t, "of_input", "gradient of the input is not the whole layer's")


def matrix_gradients(t: Trial) -> None:
    """Compare each rank's gradients of its parts with those parts of the whole layer's."""
    for name in ("of_first", "of_second"):
        _compare(t, name, f"gradient {name} is not its part of the whole layer's")


def one_sum_each_way(t: Trial) -> None:
    """Look for more than one sum forward and one backward, each of the input's size."""
    wanted = 2 * (t.size - 1) * -(-4 * WIDTH // t.size)
    forward, backward = t.read("sent", (2,))[0]
    require(
        max(forward, backward) <= wanted,
        f"{t.where()}: rank 0 sent {forward:g} and {backward:g} numbers, forward and backward; one sum of the input's "
        f"size each way is {wanted}",
    )


def _compare(t, name, otherwise):
    """Compare each rank's array with the whole layer's, and detect partial sums."""
    whole = _layer(t.given, t.given["first"], t.given["second"])[name]
    columns = zip(np.split(t.given["first"], t.size, 1), np.split(t.given["second"], t.size), strict=True)
    shares = [_layer(t.given, *parts)[name] for parts in columns]
    summed = name in ("y", "of_input")
    for rank, found in enumerate(t.read(name, shares[0].shape)):
        share = ": it is this rank's share, without the sum over ranks"
        why = share if summed and np.allclose(found, shares[rank], atol=1e-3) else ""
        wanted = whole if summed else shares[rank]
        require(np.allclose(found, wanted, rtol=1e-3, atol=1e-3), f"{t.where()}: rank {rank}'s {otherwise}{why}")


def _layer(given, first, second):
    """Return the result of a layer with these matrices, and all gradients, float64."""
    x, back, first, second = (array.astype(float) for array in (given["x"], given["back"], first, second))
    hidden = np.maximum(x @ first, 0)
    to_hidden = (back @ second.T) * (hidden > 0)
    return {
        "y": hidden @ second,
        "of_input": to_hidden @ first.T,
        "of_first": x.T @ to_hidden,
        "of_second": hidden.T @ back,
    }


# ---------------------------------------------------------------- twins


def _twins(t: Trial) -> Iterator[tuple[dict[str, str], np.ndarray]]:
    """Yield the mistakes of each twin and its weights ``[steps, ranks, weights]``, those with the fewest first."""
    gradients = {
        "mean": {},
        "sum": {"averaged": "the sum of all ranks' gradients is applied, not the mean"},
        "own": {"averaged": "each part is updated with the gradient of its own rank only, not the mean"},
    }
    gathers = {
        "all": {},
        "before": {"gathered": "the weights never change: gather the parts after their update"},
        "own": {"gathered": "each rank has its own part's update only: gather the parts from all ranks"},
        "late": {"gathered": "other ranks' parts are a step behind: gather the parts after their update"},
    }
    pads = {"end": {}}
    if any(layer % t.size for layer in t.layers):
        pads["rest"] = {"padded": "weights that are left over when the ranks do not divide them never change"}
        pads["front"] = {"padded": "weights are shifted against their gradients: pad both at the end"}
    combinations = itertools.product(gradients, gathers, pads)
    ordered = [({**gradients[a], **gathers[b], **pads[c]}, (a, b, c)) for a, b, c in combinations]
    for mistakes, choice in sorted(ordered, key=lambda pair: len(pair[0])):
        yield mistakes, _train(t, *choice)


def _train(t, gradient, gather, pad):
    owner = np.concatenate([_owners(layer, t.size, pad) for layer in t.layers])
    every, rate = t.given["gradients"].astype(float), float(t.given["rate"])
    weights, velocity, found = np.repeat(t.given["weights"][None].astype(float), t.size, axis=0), 0.0, []
    for step in range(STEPS):
        each = every[step]
        used = {"mean": each.mean(0), "sum": each.sum(0), "own": each[owner, np.arange(len(owner))]}[gradient]
        velocity = BETA * velocity + used
        change = np.where(owner < 0, 0, -rate * velocity)
        if pad == "front":
            weights = np.concatenate([_shifted(part, t.size) for part in _layers(t, weights)], axis=1)
        mine = owner == np.arange(t.size)[:, None]
        found.append(weights + {"all": 1, "before": 0, "own": mine, "late": mine}[gather] * change)
        weights = weights + change if gather == "late" else found[-1]
    return np.array(found)


def _owners(numbers, size, pad):
    """Return the rank that has each weight; -1 for leftovers."""
    part = numbers // size if pad == "rest" else -(-numbers // size)
    owners = np.arange(numbers) // max(part, 1)
    return np.where(owners < size, owners, -1) if part else np.full(numbers, -1)


def _layers(t, weights):
    return np.split(weights, np.cumsum(t.layers)[:-1], axis=1)


def _shifted(part, size):
    missing = -part.shape[1] % size
    return np.pad(part, ((0, 0), (missing, 0)))[:, : part.shape[1]]
