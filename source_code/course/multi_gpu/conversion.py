"""Checks for lesson 3's exercise, a converted script, by its ranks' final weights.

`training` draws data and each rank's initial weights, and launches the reader's script. This module then repeats the
training in NumPy: correctly, and once for every combination of common mistakes. The simulation with the same final
weights shows which mistakes the script makes. Each mistake has its own check, which raises AssertionError with one
sentence. A global batch covers all data, so the result doesn't depend on how samples are divided or shuffled.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from course.grader.launches import launched, require

SHAPES = ((6, 10), (10,), (10, 1), (1,))  # kernels and biases of two dense layers
BATCH, EPOCHS = 480, 4  # large batches: the division of samples among ranks then changes little
CLOSE = 3e-3  # of the distance from the initial weights; float32 rounds to about 1e-5, half precision to 1e-3
NEAR = 0.17  # of that distance: close enough to name the mistakes of a training that no simulation matches
LATE = 0.06  # of that distance: if ranks' first gradients are from different weights, the division of samples matters
SAME_LOSS = 1e-3  # relative
FOUND = {}  # simulations by training: several tests ask for the same one


@dataclass(frozen=True)
class Simulation:
    """A training computed in NumPy, with the usual mistakes that it makes: {check: what happened, in words}."""

    mistakes: dict[str, str]
    weights: np.ndarray  # float64 [ranks, weights]
    # float64 [steps of the last epoch + 1, ranks], the last row after the training; None if the weights differ somewhat
    losses: np.ndarray | None = None
    late: bool = False  # first gradients at each rank's own weights


@dataclass(frozen=True)
class Training:
    """A launch: the data and weights that ranks were given, and the results that they reported."""

    file: str
    x: np.ndarray  # float64 [samples, features]
    y: np.ndarray  # float64 [samples, 1]
    rate: float  # for the batch of one rank
    drawn: np.ndarray  # each rank's initial weights, float64 [ranks, weights]
    weights: np.ndarray  # reported, float64 [ranks, weights]
    losses: np.ndarray  # reported, float64 [ranks]
    samples: np.ndarray  # reported, float64 [ranks]
    wrote: tuple[bool, ...]  # whether each rank wrote the checkpoint

    @property
    def size(self) -> int:
        return len(self.drawn)

    @property
    def where(self) -> str:
        return f"{self.file} on {self.size} ranks"

    @cached_property
    def moved(self) -> float:
        """How far the weights of one device get from rank 0's initial weights."""
        return float(np.linalg.norm(next(_simulations(self)).weights[0] - self.drawn[0]))

    @property
    def simulation(self) -> Simulation | None:
        """The simulation with the fewest mistakes that ends with these weights, else one nearby, else None."""
        key = (self.file, self.drawn.tobytes(), self.weights.tobytes())
        if key not in FOUND:
            FOUND[key] = self._matching_simulation()
        return FOUND[key]

    def _matching_simulation(self):
        near, least = None, (np.inf, 0.0)
        spread = _spread(self)
        for simulation in _simulations(self):
            off = simulation.weights - self.weights
            if np.linalg.norm(off, axis=1).max() < CLOSE * self.moved:
                return simulation
            # Without averaging, the result depends on who has which sample: compare the mean over ranks.
            distance = np.linalg.norm(off.mean(axis=0)) / self.moved
            rank = (len(simulation.mistakes), distance)
            if distance < NEAR and rank < least and simulation.mistakes.keys() & {"averaged", "began_alike"} == spread:
                near, least = simulation, rank
        if near and not near.mistakes and not (near.late and least[1] < LATE):
            what = f"{self.where}, some samples are on several ranks in a step, or on none"
            return Simulation({"own_samples": what}, near.weights)
        return near and Simulation(near.mistakes, near.weights)


def training(file: str, ranks: int, seed: int) -> Training:
    """Launch a script with data and initial weights of a seed, and return what its ranks reported.

    AssertionError if it can't be launched, fails, does not end in time, or reports something else.
    """
    draw = np.random.default_rng([seed, ranks])
    x = draw.normal(size=(ranks * BATCH, SHAPES[0][0])).astype(np.float32)
    y = (np.sin(x.sum(axis=1, keepdims=True)) + x[:, :1]).astype(np.float32)
    rate = round(float(draw.uniform(0.02, 0.03)), 4)
    weights = [0.4 * draw.normal(size=(ranks, *shape)).astype(np.float32) for shape in SHAPES]
    files = {
        "data.npz": {"x": x, "y": y},
        "initial.npz": {f"weight{number}": array for number, array in enumerate(weights)},
    }
    options = {"data": "../data.npz", "batch": BATCH, "rate": rate, "epochs": EPOCHS, "out": "model.weights.h5"}
    args = [part for name, value in options.items() for part in (f"--{name}", value)]
    found = launched(file, ranks, files, args=args)
    where = f"{file} on {ranks} ranks"
    return Training(
        file=file,
        x=x.astype(float),
        y=y.astype(float),
        rate=rate,
        drawn=np.concatenate([array.reshape(ranks, -1) for array in weights], axis=1).astype(float),
        weights=np.stack([_vector(rank.arrays, where) for rank in found]),
        losses=_scalars(found, "loss", where),
        samples=_scalars(found, "samples", where),
        wrote=tuple(rank.wrote for rank in found),
    )


# ---------------------------------------------------------------- the checks


def same_weights(t: Training) -> None:
    """Compare the weights with a single device's, which trains on the global batch."""
    simulation = _known(t)
    require(not simulation.mistakes, "; ".join(simulation.mistakes.values()))


def own_samples(t: Training) -> None:
    """Look for ranks that train on the same samples."""
    _refuse(t, "own_samples")


def right_steps(t: Training) -> None:
    """Look for more or fewer steps than the data has global batches."""
    _refuse(t, "right_steps")


def averaged(t: Training) -> None:
    """Look for ranks that follow their own gradients."""
    _refuse(t, "averaged")


def scaled(t: Training) -> None:
    """Look for a learning rate that is wrong for the global batch (Goyal et al. 2017, section 2.1)."""
    _refuse(t, "scaled")


def began_alike(t: Training) -> None:
    """Look for ranks that keep their own initial weights."""
    _refuse(t, "began_alike")


def true_metrics(t: Training) -> None:
    """Look for a loss or a number of samples that leaves out other ranks."""
    for rank, (loss, samples) in enumerate(zip(t.losses, t.samples, strict=True)):
        where = f"{t.where}, rank {rank}"
        require(
            np.isclose(loss, t.losses[0], rtol=SAME_LOSS),
            f"{where} reported a loss of {loss:.4g}, and rank 0 one of {t.losses[0]:.4g}: average it over ranks",
        )
        if t.simulation and t.simulation.losses is not None:
            last = t.simulation.losses
            means = {*last.mean(axis=1), last[:-1].mean()}
            require(
                any(np.isclose(loss, mean, rtol=SAME_LOSS) for mean in means),
                f"{where} reported a loss of {loss:.4g}; the mean over all ranks in the last epoch is "
                f"{last[:-1].mean():.4g}",
            )
        several = (
            t.size if t.simulation and "own_samples" in t.simulation.mistakes else 1
        )  # that mistake has its own check
        require(
            samples in (len(t.x), several * len(t.x)),
            f"{where} reported {samples:g} samples; all ranks together trained on {len(t.x)} in an epoch",
        )


def one_writer(t: Training) -> None:
    """Look for a checkpoint that no rank, or more than one rank, writes."""
    writers = [str(rank) for rank, wrote in enumerate(t.wrote) if wrote]
    require(writers, f"{t.where}: no rank wrote the checkpoint")
    require(len(writers) == 1, f"{t.where}: ranks {' and '.join(writers)} wrote the checkpoint; one rank is enough")


CHECKS = (
    same_weights, own_samples, right_steps, averaged, scaled, began_alike, true_metrics, one_writer
)  # fmt: skip


def _known(t):
    require(
        t.simulation,
        f"{t.where}, the weights match neither one device nor a usual mistake, so the test can't tell what is missing",
    )
    return t.simulation


def _refuse(t, mistake):
    simulation = _known(t)
    require(mistake not in simulation.mistakes, simulation.mistakes.get(mistake))


# ---------------------------------------------------------------- simulations


def _simulations(t: Training) -> Iterator[Simulation]:
    """Yield a simulation for each combination of mistakes, those with the fewest first."""
    roots = sorted({0, t.size - 1})
    starts = [({}, (t.drawn[[root] * t.size], None)) for root in roots]
    # Horovod's Keras callback broadcasts at the end of the first batch, which is also correct.
    starts += [({}, (t.drawn, root)) for root in roots]
    starts.append(({"began_alike": "every rank keeps its own initial weights"}, (t.drawn, None)))
    mixes = [({}, True), ({"averaged": "every rank applies the gradient of its own samples only"}, False)]
    wanted, twice = f"{t.size} × {t.rate:g}", "scaled twice, or gradients are summed and it is scaled"
    factors = [
        ({}, t.size),
        ({"scaled": f"the learning rate is right for one rank's batch; this exercise asks for {wanted}"}, 1),
        ({"scaled": f"the learning rate is {twice}: {wanted}"}, t.size**2),
        ({"scaled": f"the learning rate is scaled by √{t.size}, not {wanted}"}, math.sqrt(t.size)),
    ]
    fewer = math.ceil(EPOCHS / t.size)
    epochs = [({}, EPOCHS), ({"right_steps": f"{fewer} epochs were made, not {EPOCHS}"}, fewer)]
    combinations = itertools.product(_divisions(t), starts, mixes, factors, epochs)
    for choices in sorted(combinations, key=lambda choices: sum(len(mistakes) for mistakes, _ in choices)):
        sentences = {check: f"{t.where}, {what}" for mistakes, _ in choices for check, what in mistakes.items()}
        yield _train(t, sentences, *(choice for _, choice in choices))


def _spread(t):
    """Return the mistakes visible in the differences between ranks, for any division of samples."""
    apart, began = t.weights - t.weights[0], t.drawn - t.drawn[0]
    if np.linalg.norm(apart) < CLOSE * t.moved:
        return set()
    if np.linalg.norm(apart - began) < CLOSE * t.moved:  # all have made the same updates
        return {"began_alike"}
    return {"averaged", "began_alike"} if np.sum(apart * began) > 0.5 * np.sum(began**2) else {"averaged"}


def _divisions(t):
    """Yield ways to divide an epoch: mistakes, and samples by number, int ``[steps, ranks, batch]``."""
    rows = np.arange(len(t.x)).reshape(t.size, BATCH)  # each rank's shard, when they are contiguous
    few = {
        "own_samples": f"a step has {BATCH} different samples, not {t.size} × {BATCH}: each rank takes its own shard"
    }
    for own in (rows, rows.reshape(BATCH, t.size).T):  # contiguous, and every N-th sample
        yield {}, own[None]
        yield few, np.repeat(own[None, :1], t.size, axis=1)  # all take the same shard
    yield few, np.repeat(rows[:, None], t.size, axis=1)  # all take everything
    yield few, rows.reshape(t.size, t.size, -1).swapaxes(0, 1)  # the batch is divided


def _train(t, mistakes, division, start, mean, factor, epochs):
    weights, late = start
    steps, losses = [*division] * epochs, []
    for number, numbers in enumerate(steps):
        found = [_loss_and_gradient(own, t.x[part], t.y[part]) for own, part in zip(weights, numbers, strict=True)]
        losses.append([loss for loss, _ in found])
        gradients = np.stack([gradient for _, gradient in found])
        weights = weights - factor * t.rate * (gradients.mean(axis=0) if mean else gradients)
        if late is not None and number == 0:
            weights = weights[[late] * t.size]
    losses.append([_loss_and_gradient(own, t.x, t.y)[0] for own in weights])
    return Simulation(mistakes, weights, np.array(losses[-len(division) - 1 :]), late is not None)


def _loss_and_gradient(vector, x, y):
    """Return the mean squared error of ``tanh(x A + a) B + b``, and its gradient for all weights in one vector."""
    first, bias, second, last = _arrays(vector)
    hidden = np.tanh(x @ first + bias)
    error = hidden @ second + last - y
    back = 2 * error / error.size
    to_hidden = (back @ second.T) * (1 - hidden**2)
    parts = x.T @ to_hidden, to_hidden.sum(axis=0), hidden.T @ back, back.sum(axis=0)
    return float(np.mean(error**2)), np.concatenate([part.ravel() for part in parts])


def _arrays(vector):
    parts = np.split(vector, np.cumsum([math.prod(shape) for shape in SHAPES])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


# ---------------------------------------------------------------- reports


def _vector(arrays, where):
    """Return a rank's reported weights as one vector; PyTorch's kernels are transposed."""
    found = [arrays[name] for name in sorted(arrays) if name.startswith("weight")]
    shapes = [array.shape for array in found]
    right = len(found) == len(SHAPES) and all(
        shape in (own, own[::-1]) for shape, own in zip(shapes, SHAPES, strict=True)
    )
    require(right, f"{where} reported weights of the shapes {shapes}, not {list(SHAPES)}: `report` takes the model's")
    parts = [array if array.shape == own else array.T for array, own in zip(found, SHAPES, strict=True)]
    return np.concatenate([part.ravel() for part in parts]).astype(float)


def _scalars(found, name, where):
    values = [rank.arrays.get(name, np.zeros(0)) for rank in found]
    require(all(value.size == 1 for value in values), f"{where}: `{name}` must be one number")
    return np.array([value.item() for value in values], float)
