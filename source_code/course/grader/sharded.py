"""Judge what a reader has written to share out a model: lesson 6's questions that are launched on ranks.

A test draws weights, and samples for each rank (`trial`); `course.training.sharded_trial` runs the answer where no
grade is decided. What comes back is compared with a single device's training, computed here in float64. Each mistake
has a check of its own, which raises AssertionError with a sentence.
"""

from dataclasses import dataclass

import numpy as np

from course.grader.launched import events, launched, require
from course.training.sharded_trial import BETA, SHAPES
from course.training.task import loss_and_gradients

STEPS, BATCH = 3, 24  # samples of all ranks; it is shared out evenly over one to four of them
CLOSE = 1e-3  # relative; float32 rounds to about 1e-6
EVEN, ODD = ("tied", "outer"), ("tied", "inner", "outer")  # 32 weights, which any of 1, 2, 4 ranks divide; 35
WIDTH, HIDDEN = 5, 12  # of the two matrices in tensor parallelism


@dataclass(frozen=True)
class Trial:
    """What ranks were given, and what each has noted: of each step its weights, and what it has sent and kept."""

    file: str
    given: dict
    samples: np.ndarray  # float64 [ranks, n, 6]
    steps: tuple[tuple[dict, ...], ...]  # of each rank

    @property
    def size(self) -> int:
        return len(self.steps)

    @property
    def numbers(self) -> int:
        return sum(int(np.prod(SHAPES[name])) for name in self.given["trained"])

    @property
    def part(self) -> int:
        """How many weights a rank has, padded."""
        return -(-self.numbers // self.size)

    @property
    def padded(self) -> int:
        """How many weights a rank has of all layers, each of which is padded for itself."""
        return sum(-(-int(np.prod(SHAPES[name])) // self.size) for name in self.given["trained"])

    def where(self, step=None):
        return f"{self.file} on {self.size} ranks" + ("" if step is None else f", step {step + 1}")


def trial(file: str, ranks: int, seed: int, kind: str = "sharded", trained: tuple = EVEN) -> Trial:
    """Have a file tried on ranks with data of a seed.

    `kind` is what it has to define: "sharded" or "fully". AssertionError, if it is not there, fails, or does not end
    in time.
    """
    draw = np.random.default_rng([seed, ranks])
    samples = draw.normal(size=(ranks, 90, SHAPES["frozen"][0])).astype(np.float32).astype(float)
    order = draw.permutation(90)[: STEPS * BATCH].reshape(STEPS, BATCH)
    weights = {name: (0.4 * draw.normal(size=shape)).astype(np.float32).tolist() for name, shape in SHAPES.items()}
    given = {
        "kind": kind, "rate": round(float(draw.uniform(0.2, 0.4)), 2), "weights": weights, "batches": order.tolist(),
        "trained": list(trained),
    }  # fmt: skip
    return Trial(file, given, samples, _launched(file, given, samples))


def tensor_trial(file: str, ranks: int, seed: int) -> Trial:
    """Have the two functions of tensor parallelism tried once, on matrices of a seed."""
    draw = np.random.default_rng([seed, ranks])
    shapes = {"x": (4, WIDTH), "first": (WIDTH, HIDDEN), "second": (HIDDEN, WIDTH), "back": (4, WIDTH)}
    arrays = {name: draw.normal(size=shape).astype(np.float32).tolist() for name, shape in shapes.items()}
    given, samples = {"kind": "tensor", **arrays}, np.zeros((ranks, 0))
    columns, rows = np.split(np.array(arrays["first"]), ranks, axis=1), np.split(np.array(arrays["second"]), ranks)
    parts = [{"first": a.tolist(), "second": b.tolist()} for a, b in zip(columns, rows, strict=True)]
    return Trial(file, given, samples, _launched(file, given, samples, parts))


# ---------------------------------------------------------------- the checks of ZeRO


def same_weights(t: Trial) -> None:
    """Compare all ranks' weights after each step with those of a single device."""
    for step, wanted in enumerate(_twin(t)):
        for rank, found in enumerate(_weights(t, step)):
            off = np.abs(found - wanted) > CLOSE * np.abs(wanted).max()
            if not off.any():
                continue
            first, last = np.flatnonzero(off)[[0, -1]]
            raise AssertionError(
                f"{t.where(step)}: rank {rank} has {off.sum()} of {t.numbers} weights that a single device does not "
                f"have, from number {first} to {last}; a rank's part is {t.part} of them"
            )


def padded(t: Trial) -> None:
    """Look for weights that are left over, or shifted, because the ranks do not divide them."""
    start = _start(t)
    wanted = _twin(t)[0] - start
    for rank, found in enumerate(_weights(t, 0)):
        moved = found - start
        times = _times(moved, wanted)  # a wrong factor is the matter of `averaged`
        off = np.abs(moved - times * wanted) > CLOSE * np.abs(wanted).max() * max(1, abs(times))
        strange = np.flatnonzero(off | (moved == 0))
        require(
            not len(strange),
            f"{t.where(0)}, which do not divide {t.numbers} weights: rank {rank}'s have not moved like a single "
            f"device's, first number {strange[:1]}",
        )


def averaged(t: Trial) -> None:
    """Look for an update with the sum of all ranks' gradients, or with one rank's own."""
    times = _times(_weights(t, 0)[0] - _start(t), _twin(t)[0] - _start(t))
    require(times, f"{t.where(0)}: the weights have not moved")
    why = ": that is the sum of all ranks' gradients" if np.isclose(times, t.size, rtol=0.02) else ""
    require(
        np.isclose(times, 1, rtol=0.02),
        f"{t.where(0)}: the weights moved {times:.3g} times as far as with the mean of all ranks' gradients{why}",
    )


def gathered(t: Trial) -> None:
    """Look for ranks that have not the same weights, or those of the step before."""
    for step in range(STEPS):
        found = _weights(t, step)
        for rank, weights in enumerate(found):
            require(
                np.array_equal(weights, found[0]),
                f"{t.where(step)}: rank {rank} has other weights than rank 0: parts are gathered from all ranks",
            )
    start = _start(t)
    require(
        not np.allclose(_weights(t, 0)[0], start, rtol=1e-7, atol=0) or t.size == 1,
        f"{t.where(0)}: the weights are still those of the beginning: parts are gathered after their update",
    )


def state_shared(t: Trial) -> None:
    """Look for an optimizer's state that is longer than a rank's part."""
    wanted = t.padded if t.given["kind"] == "fully" else t.part
    for rank, steps in enumerate(t.steps):
        lengths = _read(steps[-1], "lengths", t)
        require(
            lengths.sum() == wanted,
            f"{t.where()}: rank {rank}'s optimizer has a state of {int(lengths.sum())} numbers; its part of the "
            f"{t.numbers} weights is {wanted}",
        )


def few_bytes(t: Trial) -> None:
    """Look for more messages than are needed, or for fewer."""
    fully = t.given["kind"] == "fully"
    part, times = (t.padded, 3) if fully else (t.part, 2)
    what = "two gathers and one exchange" if fully else "one exchange and one gather"
    wanted = times * (t.size - 1) * part
    for rank, steps in enumerate(t.steps):
        for step, line in enumerate(steps):
            sent = int(_read(line, "sent", t).sum())
            require(
                sent == wanted,
                f"{t.where(step)}: rank {rank} sent {sent} numbers; {what} of {part} with {t.size - 1} others are "
                f"{wanted}",
            )


def little_kept(t: Trial) -> None:
    """Look for weights or gradients of other ranks' parts that are kept (ZeRO's third stage)."""
    wanted = 2 * t.padded  # weights and gradients
    for rank, steps in enumerate(t.steps):
        kept = int(_read(steps[-1], "kept", t).sum())
        require(
            kept <= wanted,
            f"{t.where()}: rank {rank} kept {kept} numbers in its arrays at once; its parts of weights and gradients "
            f"are {wanted}",
        )


# ---------------------------------------------------------------- the checks of tensor parallelism


def forward_equal(t: Trial) -> None:
    """Compare the result on each rank with that of the whole layer."""
    _compare(t, "y", [_dense(t)["y"]] * t.size, "result is not the whole layer's")


def input_gradient(t: Trial) -> None:
    """Compare the input's gradient on each rank with that of the whole layer."""
    _compare(t, "of_input", [_dense(t)["of_input"]] * t.size, "gradient of the input is not the whole layer's")


def matrix_gradients(t: Trial) -> None:
    """Compare each rank's gradients of its parts with those parts of the whole layer's."""
    for name, axis in (("of_first", 1), ("of_second", 0)):
        parts = np.split(_dense(t)[name], t.size, axis)
        _compare(t, name, parts, f"gradient {name} is not its part of the whole layer's")


def one_sum_each_way(t: Trial) -> None:
    """Look for more than one sum forward and one backward, each of the input's size."""
    wanted = 2 * (t.size - 1) * -(-4 * WIDTH // t.size)
    sent = _read(t.steps[0][0], "sent", t).tolist()
    require(
        sent == [wanted, wanted],
        f"{t.where()}: rank 0 sent {' and '.join(f'{count:g}' for count in sent)} numbers, forward and backward; one "
        f"sum of the input's size each way is {wanted}",
    )


# ---------------------------------------------------------------- what is computed here


def _launched(file, given, samples, parts=None):
    """Return what each rank notes, which is given the same as the others but for its own samples and `parts`."""
    parts = parts or [{}] * len(samples)
    inputs = [{"given": given | part, "samples": own.tolist()} for own, part in zip(samples, parts, strict=True)]
    where = f"{file} on {len(samples)} ranks"
    reply = launched("sharded", file, inputs, where)
    noted = tuple(tuple(event for event in events(notes) if event.get("event") == "step") for notes in reply["notes"])
    wanted = 1 if given["kind"] == "tensor" else STEPS
    require(all(len(steps) == wanted for steps in noted), f"{where}: not all of them came to the end of {wanted} steps")
    return noted


def _twin(t):
    """Return the weights of a single device after each step: float64 ``[steps, weights]``."""
    weights = {name: np.array(values, float) for name, values in t.given["weights"].items()}
    names, velocity, found = t.given["trained"], 0.0, []
    for numbers in t.given["batches"]:
        each = [loss_and_gradients(weights, t.samples[rank, numbers[rank :: t.size]])[1] for rank in range(t.size)]
        mean = np.mean([np.concatenate([found[name].ravel() for name in names]) for found in each], axis=0)
        velocity = BETA * velocity + mean
        vector = np.concatenate([weights[name].ravel() for name in names]) - t.given["rate"] * velocity
        sizes = [weights[name].size for name in names]
        for name, part in zip(names, np.split(vector, np.cumsum(sizes)[:-1]), strict=True):
            weights[name] = part.reshape(SHAPES[name])
        found.append(vector)
    return found


def _start(t):
    return np.concatenate([np.array(t.given["weights"][name], float).ravel() for name in t.given["trained"]])


def _times(moved, wanted):
    """Return how many times as far weights have moved as they ought to, by the median of what ought to move far."""
    large = (np.abs(wanted) > 0.1 * np.abs(wanted).max()) & (moved != 0)
    return float(np.median(moved[large] / wanted[large])) if large.any() else 0.0


def _weights(t, step):
    """Return all ranks' weights after a step, which they say themselves."""
    found = [_read(steps[step], "weights", t) for steps in t.steps]
    for rank, weights in enumerate(found):
        right = weights.shape == (t.numbers,)
        require(right, f"{t.where(step)}: rank {rank} has {weights.size} of {t.numbers} weights")
    return found


def _dense(t):
    """Return what the whole layer makes of its input, and all gradients."""
    x, first, second, back = (np.array(t.given[name], float) for name in ("x", "first", "second", "back"))
    hidden = np.maximum(x @ first, 0)
    to_hidden = (back @ second.T) * (hidden > 0)
    return {
        "y": hidden @ second,
        "of_input": to_hidden @ first.T,
        "of_first": x.T @ to_hidden,
        "of_second": hidden.T @ back,
    }


def _compare(t, name, wanted, otherwise):
    for rank, (steps, part) in enumerate(zip(t.steps, wanted, strict=True)):
        found = _read(steps[0], name, t)
        right = found.shape == part.shape and np.allclose(found, part, rtol=CLOSE, atol=CLOSE)
        require(right, f"{t.where()}: rank {rank}'s {otherwise}")


def _read(line, name, t):
    """Return an array that a rank has noted; AssertionError, if it is none of finite numbers."""
    try:
        found = np.atleast_1d(np.array(line[name], dtype=float))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise AssertionError(f"{t.where()}: its record cannot be read ({error!r})"[:300]) from None
    require(np.isfinite(found).all(), f"{t.where()}: `{name}` is not finite")
    return found
