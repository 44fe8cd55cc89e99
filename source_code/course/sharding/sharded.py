"""Checks for a reader's sharding code: launched questions of lessons 6 and 6b.

A test draws weights, and gradients for each rank (`trial`); ranks report their weights after each step. This module
computes simulations of that training: a correct one, and one for each common mistake. The simulation with the same
weights shows which mistakes were made.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from course.grader.launches import require
from course.sharding.trial import Trial, compare, tried

STEPS, BETA = 3, 0.9
CLOSE = 1e-4  # of the distance from the initial weights; float32 rounds to about 1e-6
EVEN = {"first": 24, "second": 8}  # 32 weights, which 1, 2 and 4 ranks divide
ODD = {"first": 24, "second": 3, "third": 8}  # 35
VERBS = {"state": "has", "sent": "sent", "kept": "kept"}
WIDTH, HIDDEN = 5, 12  # of the two matrices in tensor parallelism


def trial(file: str, ranks: int, seed: int, kind: str = "sharded", layers: dict[str, int] = EVEN) -> Trial:
    """Run a class that shards: of the `kind` "sharded", "gradients" or "fully", with data of a seed."""
    draw, count = np.random.default_rng([seed, ranks]), sum(layers.values())
    given = {
        "names": np.array(list(layers)),
        "sizes": np.array(list(layers.values())),
        "weights": draw.normal(size=count).astype(np.float32),
        "gradients": draw.normal(size=(STEPS, ranks, count)).astype(np.float32),
        "rate": np.array(round(float(draw.uniform(0.2, 0.4)), 2)),
    }
    return tried(file, ranks, kind, given)


def tensor_trial(file: str, ranks: int, seed: int) -> Trial:
    """Run the two functions of tensor parallelism once, on matrices of a seed."""
    draw = np.random.default_rng([seed, ranks])
    shapes = {"x": (4, WIDTH), "first": (WIDTH, HIDDEN), "second": (HIDDEN, WIDTH), "back": (4, WIDTH)}
    return tried(file, ranks, "tensor", {name: draw.normal(size=to).astype(np.float32) for name, to in shapes.items()})


# ---------------------------------------------------------------- the checks of ZeRO


def same_weights(t: Trial, *kinds: str) -> None:
    """Compare all ranks' weights after each step with a single device's.

    With `kinds` of mistakes ("averaged", "gathered", "padded"), only those are looked for.
    """
    found = t.read("weights", (STEPS, len(t.given["weights"]))).swapaxes(0, 1)
    distance = None
    for mistakes, weights in _simulations(t):
        distance = distance or np.abs(weights[-1, 0] - t.given["weights"]).max()  # the first simulation is correct
        if np.abs(found - weights).max() < CLOSE * distance:
            wrong = [mistakes[kind] for kind in kinds or mistakes if kind in mistakes]
            return require(not wrong, f"{t.where}: {'; '.join(wrong)}")
    raise AssertionError(f"{t.where}: the weights match neither a single device nor a usual mistake")


def state_shared(t: Trial) -> None:
    """Look for optimizer state that is longer than a rank's shard."""
    _at_most(t, "state", _shard(t), f"of optimizer state; its shard of the {len(t.given['weights'])} weights is")


def few_bytes(t: Trial) -> None:
    """Look for more messages than are needed."""
    messages, what = (3, "two gathers and one exchange") if t.kind == "fully" else (2, "one exchange and one gather")
    wanted = messages * (t.size - 1) * _shard(t)
    _at_most(t, "sent", wanted, f"to others in a step; {what} of {_shard(t)} with {t.size - 1} others are", (STEPS,))


def little_kept(t: Trial) -> None:
    """Look for stored gradients of other ranks' shards, and in the third stage of ZeRO also for weights."""
    whole = t.kind == "gradients"
    what = "all weights and its shards of gradients" if whole else "its shards of weights and gradients"
    _at_most(t, "kept", _shard(t) * (1 + t.size if whole else 2), f"in its arrays at once; {what} are")


def _at_most(t, name, wanted, sentence, shape=()):
    for rank, found in enumerate(t.read(name, shape)):
        require(
            np.max(found) <= wanted,
            f"{t.where}: rank {rank} {VERBS[name]} {np.max(found):g} numbers {sentence} {wanted}",
        )


# ---------------------------------------------------------------- the checks of tensor parallelism


def equal(t: Trial, *names: str) -> None:
    """Compare each rank's arrays ("y", "of_input", "of_first", "of_second") with the whole layer's."""
    whole = _layer(t, t.given["first"], t.given["second"])
    columns = zip(np.split(t.given["first"], t.size, 1), np.split(t.given["second"], t.size), strict=True)
    shares = [_layer(t, *shards) for shards in columns]
    for name in names:
        summed = name in ("y", "of_input")
        for rank, found in enumerate(t.read(name, shares[0][name].shape)):
            own = shares[rank][name]
            mistakes = {"it is this rank's share, without the sum over ranks": own} if summed else {}
            compare(
                found, whole[name] if summed else own, mistakes, f"{t.where}: rank {rank}'s {name} is not the layer's"
            )


def one_sum_each_way(t: Trial) -> None:
    """Look for more than one sum forward and one backward, each of the input's size."""
    wanted = 2 * (t.size - 1) * -(-4 * WIDTH // t.size)
    _at_most(t, "sent", wanted, "forward or backward; one sum of the input's size each way is", (2,))


def _layer(t, first, second):
    """Return the result of a layer with these matrices, and all gradients, float64."""
    x, back, first, second = (array.astype(float) for array in (t.given["x"], t.given["back"], first, second))
    hidden = np.maximum(x @ first, 0)
    to_hidden = (back @ second.T) * (hidden > 0)
    return {
        "y": hidden @ second, "of_input": to_hidden @ first.T, "of_first": x.T @ to_hidden, "of_second": hidden.T @ back
    }  # fmt: skip


# ---------------------------------------------------------------- simulations


def _layers(t):
    """Return the numbers of weights that are sharded together: all, or each layer separately."""
    sizes = t.given["sizes"].tolist()
    return [sum(sizes)] if t.kind == "sharded" else sizes


def _shard(t):
    """Return the number of weights per rank, including padding."""
    return sum(-(-layer // t.size) for layer in _layers(t))


def _simulations(t: Trial) -> Iterator[tuple[dict[str, str], np.ndarray]]:
    """Yield each simulation's mistakes and weights ``[steps, ranks, weights]``, those with the fewest first."""
    choices = {
        "averaged": {
            "mean": "",
            "sum": "the sum of all ranks' gradients is applied, not the mean",
            "own": "each shard is updated with the gradient of its own rank only, not the mean",
        },
        "gathered": {
            "all": "",
            "before": "the weights never change: gather the shards after their update",
            "own": "each rank has its own shard's update only: gather the shards from all ranks",
            "late": "other ranks' shards are a step behind: gather the shards after their update",
        },
        "padded": {"end": ""},
    }
    if any(layer % t.size for layer in _layers(t)):
        choices["padded"]["rest"] = "weights that are left over when the ranks do not divide them never change"
        choices["padded"]["front"] = "weights are shifted against their gradients: pad both at the end"
    simulations = []
    for chosen in itertools.product(*choices.values()):
        said = zip(choices, map(dict.get, choices.values(), chosen), strict=True)
        simulations.append(({kind: mistake for kind, mistake in said if mistake}, chosen))
    for mistakes, chosen in sorted(simulations, key=lambda simulation: len(simulation[0])):
        yield mistakes, _train(t, *chosen)


def _train(t, gradient, gather, pad):
    owner = np.concatenate([_owners(layer, t.size, pad) for layer in _layers(t)])
    every, rate = t.given["gradients"].astype(float), float(t.given["rate"])
    weights, velocity, found = np.repeat(t.given["weights"][None].astype(float), t.size, axis=0), 0.0, []
    for each in every:
        used = {"mean": each.mean(0), "sum": each.sum(0), "own": each[owner, np.arange(len(owner))]}[gradient]
        velocity = BETA * velocity + used
        change = np.where(owner < 0, 0, -rate * velocity)
        if pad == "front":
            shards = np.split(weights, np.cumsum(_layers(t))[:-1], axis=1)
            weights = np.concatenate([_shifted(shard, t.size) for shard in shards], axis=1)
        mine = owner == np.arange(t.size)[:, None]
        found.append(weights + {"all": 1, "before": 0, "own": mine, "late": mine}[gather] * change)
        weights = weights + change if gather == "late" else found[-1]
    return np.array(found)


def _owners(numbers, size, pad):
    """Return the rank that has each weight; -1 for leftovers."""
    shard = numbers // size if pad == "rest" else -(-numbers // size)
    owners = np.arange(numbers) // max(shard, 1)
    return np.where(owners < size, owners, -1) if shard else np.full(numbers, -1)


def _shifted(shard, size):
    missing = -shard.shape[1] % size
    return np.pad(shard, ((0, 0), (missing, 0)))[:, : shard.shape[1]]
