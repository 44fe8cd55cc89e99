"""Judge a training that a reader has made distributed: lesson 3's exercise, by what its ranks recorded.

A test draws samples, their order and each rank's own weights, and has the reader's script launched with them
(`training`). What comes back is data from processes in which the script has run, so nothing in it is believed: every
check computes in NumPy, in float64, what a rank must have found with these samples at these weights. Each mistake has a
check of its own, which raises AssertionError with a sentence that says where the mistake shows.

The network is that of `ddl.training.exercise`: ``h = tanh(x F)``, ``r = (h W + b) Wᵀ + c``, and the loss is the mean of
``(r - h)²``, with the frozen ``F`` [12, 16], the tied ``W`` [16, 5], ``b`` [5] and ``c`` [16].
"""

import base64
import io
from dataclasses import dataclass

import numpy as np

from ddl.grader import launches

__all__ = [
    "CHECKS",
    "Training",
    "averaged",
    "began_alike",
    "explain_failure",
    "frozen_and_tied",
    "one_writer",
    "own_samples",
    "require",
    "same_weights",
    "scaled",
    "training",
    "true_metrics",
]

SHAPES = {"frozen": (12, 16), "tied": (16, 5), "inner": (5,), "outer": (16,)}
TRAINED = ("tied", "inner", "outer")
CLOSE = 2e-3  # relative; float32 rounds to about 1e-4 of an update here
LEFT_ALONE = ("HorovodInternalError", "UnknownError")  # what Horovod raises when another rank is gone
SAME_CALLS = "do all ranks make the same calls of Horovod?"
MESSAGE = 300  # characters of a script's own error


@dataclass(frozen=True)
class Step:
    """What a rank says of a step: numbers of its samples, its loss, the samples of all ranks, the weights after it."""

    samples: np.ndarray
    loss: float
    counted: int
    weights: dict[str, np.ndarray]


@dataclass(frozen=True)
class Rank:
    """What one rank says of a training, and whether it left a file of weights."""

    began: dict[str, np.ndarray]
    steps: tuple[Step, ...]
    wrote: bool

    def before(self, number):
        """Return the weights before a step, counted from 0."""
        return self.steps[number - 1].weights if number else self.began


@dataclass(frozen=True)
class Training:
    """A launch on several ranks: what they were given, and what they say.

    Attributes
    ----------
    samples
        float64 ``[n, 12]``.
    order
        Numbers of the samples, int ``[n]``.
    batch
        Samples of one rank in a step.
    rate
        The learning rate for that batch.
    drawn
        Each rank's own weights, by name.
    ranks
        What each rank says.
    """

    samples: np.ndarray
    order: np.ndarray
    batch: int
    rate: float
    drawn: list[dict[str, np.ndarray]]
    ranks: tuple[Rank, ...] = ()

    @property
    def size(self):
        return len(self.drawn)

    @property
    def steps(self):
        """How many steps all ranks made."""
        return min(len(rank.steps) for rank in self.ranks)

    def global_batches(self):
        """Return the numbers of the samples of each step, int ``[steps, batch × ranks]``."""
        size = self.batch * self.size
        return self.order[: len(self.order) // size * size].reshape(-1, size)

    def found(self, number):
        """Return each rank's own loss and gradients in a step, at the weights that it had."""
        return [
            _loss_and_gradients(rank.before(number), self.samples[rank.steps[number].samples]) for rank in self.ranks
        ]


def training(file: str, ranks: int, seed: int) -> Training:
    """Have a script launched on ranks, with data of a seed; return what they were given and say.

    Raises
    ------
    AssertionError
        If the script is not there, fails, does not end in time, or leaves no record that can be read.
    """
    given = _drawn(ranks, seed)
    inputs = [_packed(given, rank) for rank in range(ranks)]
    reply = launches.launch({"do": "launch", "program": "ranks", "file": file, "inputs": inputs})
    where = f"{file} on {ranks} ranks"
    explain_failure(reply, where)
    records = reply["ranks"]
    require(len(records) == ranks, f"{where}: {len(records)} of them left records")
    read = tuple(_rank(record, number, where, len(given.order)) for number, record in enumerate(records))
    return Training(**{**vars(given), "ranks": read})


# ---------------------------------------------------------------- the checks


def same_weights(t: Training) -> None:
    """Compare the weights with those of a single device that trains on the same samples."""
    _begins_drawn(t)
    weights = {name: t.ranks[0].began[name] for name in SHAPES}
    for numbers in t.global_batches():
        _, gradients = _loss_and_gradients(weights, t.samples[numbers])
        weights |= {name: weights[name] - t.size * t.rate * gradients[name] for name in TRAINED}
    way = _length({name: weights[name] - t.ranks[0].began[name] for name in TRAINED})
    for number, rank in enumerate(t.ranks):
        last = rank.before(len(rank.steps))
        off = _length({name: last[name] - weights[name] for name in TRAINED}) / way
        require(
            off < CLOSE,
            f"on {t.size} ranks, rank {number}'s last weights are off by {off:.1%} of the way that one device goes "
            "with the same samples",
        )


def own_samples(t: Training) -> None:
    """Look for samples that ranks share in a step, or that no rank has."""
    for number, batch in enumerate(t.global_batches()[: t.steps]):
        parts = [set(rank.steps[number].samples.tolist()) for rank in t.ranks]
        where = f"in step {number + 1} on {t.size} ranks"
        several = sum(map(len, parts)) - len(set().union(*parts))
        require(not several, f"{where}, {several} samples were on more than one rank: each takes its own part")
        different = set().union(*parts)
        require(
            different == set(batch.tolist()),
            f"{where}, all ranks together trained on {len(different)} samples; the global batch is the next "
            f"{t.size} × {t.batch} of the order",
        )
        uneven = [len(rank.steps[number].samples) for rank in t.ranks if len(rank.steps[number].samples) != t.batch]
        require(not uneven, f"{where}, a rank had {(uneven or [0])[0]} samples, not {t.batch}")
    for number in _looked_at(t)[1:]:
        gradients = [own for _, own in t.found(number)]
        for place, rank in enumerate(t.ranks):
            moved = _moved(rank, number)["outer"]
            require(
                any(_along(moved, own["outer"]) for own in (_mean(gradients), *gradients)),
                f"in step {number + 1} on {t.size} ranks, rank {place} did not train on the samples that it took",
            )
    wanted = len(t.global_batches())
    made = [len(rank.steps) for rank in t.ranks]
    require(
        all(count == wanted for count in made),
        f"on {t.size} ranks they made {' and '.join(map(str, sorted(set(made))))} steps; the samples are enough for "
        f"{wanted} global batches of {t.size} × {t.batch}",
    )


def averaged(t: Training) -> None:
    """Look for updates that are not along the mean of all ranks' gradients."""
    for number in _looked_at(t):
        gradients = [own for _, own in t.found(number)]
        mean = _mean(gradients)
        for place, rank in enumerate(t.ranks):
            moved = _moved(rank, number)
            if all(_along(moved[name], mean[name]) for name in TRAINED):
                continue
            own = all(_along(moved[name], gradients[place][name]) for name in TRAINED)
            raise AssertionError(
                f"in step {number + 1} on {t.size} ranks, rank {place} applied "
                + ("the gradient of its own samples only" if own else "something else")
                + ", not the mean of all ranks' gradients"
            )


def scaled(t: Training) -> None:
    """Look for updates that do not have the learning rate of the global batch (Goyal et al. 2017, section 2.1)."""
    wanted = t.size * t.rate
    for number in _looked_at(t):
        gradients = [own for _, own in t.found(number)]
        for place, rank in enumerate(t.ranks):
            moved = _moved(rank, number)
            lengths = [
                _factor(moved["outer"], along["outer"])
                for along in (_mean(gradients), gradients[place])
                if _along(moved["outer"], along["outer"])
            ]
            where = f"in step {number + 1} on {t.size} ranks, rank {place}'s update"
            require(lengths, f"{where} follows no gradient, so its learning rate cannot be seen")
            found = min(lengths, key=lambda length: abs(length - wanted))
            why = "the rate of one rank's batch" if np.isclose(found, t.rate, rtol=0.01) else "another factor"
            why = "scaled twice, or summed and scaled" if np.isclose(found, t.size * wanted, rtol=0.01) else why
            require(
                np.isclose(found, wanted, rtol=0.01),
                f"{where} is {found:.3g} times the gradient, {why}; the global batch's rate is {t.size} × {t.rate:.3g}",
            )


def began_alike(t: Training) -> None:
    """Look for ranks that begin with other trained weights than rank 0."""
    for place, rank in enumerate(t.ranks):
        require(
            _alike(rank.began, t.ranks[0].began, TRAINED),
            f"on {t.size} ranks, rank {place} began with other weights than rank 0",
        )
    _begins_drawn(t)


def frozen_and_tied(t: Training) -> None:
    """Look for frozen weights that differ or move, and for a tied matrix whose two uses do not both count."""
    for place, rank in enumerate(t.ranks):
        where = f"on {t.size} ranks, rank {place}'s"
        require(
            not _together(t) or _alike(rank.began, t.ranks[0].began, ["frozen"]),
            f"{where} frozen weights are not rank 0's: who trains them nowhere has to send them all the same",
        )
        for number in _looked_at(t):
            stayed = _alike(rank.steps[number].weights, rank.before(number), ["frozen"])
            require(stayed, f"{where} frozen weights have moved")
            gradients = [own for _, own in t.found(number)]
            moved = _moved(rank, number)
            right = any(
                _along(moved["tied"], along["tied"])
                and np.isclose(
                    _factor(moved["tied"], along["tied"]), _factor(moved["outer"], along["outer"]), rtol=0.01
                )
                for along in (_mean(gradients), gradients[place])
            )
            require(right, f"{where} tied weights did not move by the gradient of both their uses in step {number + 1}")


def true_metrics(t: Training) -> None:
    """Look for losses that are not the mean over all ranks, and for samples that are miscounted."""
    for number in _looked_at(t):
        losses = [loss for loss, _ in t.found(number)]
        mean = float(np.mean(losses))
        different = len(set().union(*(rank.steps[number].samples.tolist() for rank in t.ranks)))
        for place, rank in enumerate(t.ranks):
            step = rank.steps[number]
            where = f"in step {number + 1} on {t.size} ranks, rank {place}"
            own = ", which is that of its own samples" if np.isclose(step.loss, losses[place], rtol=CLOSE) else ""
            require(
                np.isclose(step.loss, mean, rtol=CLOSE),
                f"{where} told a loss of {step.loss:.4g}{own}; the mean of all ranks' is {mean:.4g}",
            )
            require(
                step.counted in (different, t.batch * t.size),  # who shares samples has another mistake
                f"{where} counted {step.counted} samples; all ranks together trained on {different}",
            )


def one_writer(t: Training) -> None:
    """Look for a file of weights that a rank other than rank 0 writes."""
    writers = [place for place, rank in enumerate(t.ranks) if rank.wrote]
    require(writers, f"on {t.size} ranks, no rank wrote the weights")
    others = ", ".join(str(place) for place in writers if place)
    require(not others, f"on {t.size} ranks, rank {others} wrote the weights; rank 0 alone is to")
    require(0 in writers, f"on {t.size} ranks, rank 0 did not write the weights")


CHECKS = (
    same_weights, own_samples, averaged, scaled, began_alike, frozen_and_tied, true_metrics, one_writer
)  # fmt: skip


# ---------------------------------------------------------------- what is computed here


def _loss_and_gradients(weights, samples):
    """Return the mean loss of samples, and its gradients by name."""
    mixed = np.tanh(samples @ weights["frozen"])
    code = mixed @ weights["tied"] + weights["inner"]
    error = code @ weights["tied"].T + weights["outer"] - mixed
    back = 2 * error / error.size
    to_code = back @ weights["tied"]
    gradients = {"tied": mixed.T @ to_code + back.T @ code, "inner": to_code.sum(axis=0), "outer": back.sum(axis=0)}
    return float(np.mean(error**2)), gradients


def _mean(gradients):
    return {name: np.mean([own[name] for own in gradients], axis=0) for name in TRAINED}


def _moved(rank, number):
    before, after = rank.before(number), rank.steps[number].weights
    return {name: before[name] - after[name] for name in TRAINED}


def _factor(moved, gradient):
    """Return how many times `gradient` is in `moved`."""
    return float(np.sum(moved * gradient) / max(np.sum(gradient**2), 1e-300))


def _along(moved, gradient):
    factor = _factor(moved, gradient)
    off = np.linalg.norm(moved - factor * gradient)
    return factor > 0 and off <= CLOSE * np.linalg.norm(moved)


def _alike(one, other, names):
    return all(np.array_equal(one[name], other[name]) for name in names)


def _length(arrays):
    return float(np.sqrt(sum(np.sum(array**2) for array in arrays.values())))


def _looked_at(t):
    """Return the numbers of the steps that can be looked at.

    Where ranks began apart, the first is none of them: a broadcast may have come right after it.
    """
    empty = any(not len(step.samples) for rank in t.ranks for step in rank.steps)
    require(not empty, f"on {t.size} ranks, a rank took no samples in a step")
    return range(0 if _together(t) else 1, t.steps)


def _together(t):
    return all(_alike(rank.began, t.ranks[0].began, TRAINED) for rank in t.ranks)


def _begins_drawn(t):
    drawn = any(_alike(t.ranks[0].began, drawn, TRAINED) for drawn in t.drawn)
    require(drawn, f"on {t.size} ranks, rank 0 began with weights that no rank has drawn")


def require(right, sentence: str) -> None:
    """Raise AssertionError with a sentence, unless all is right."""
    if not right:
        raise AssertionError(sentence)


# ---------------------------------------------------------------- what goes there and comes back


def _drawn(ranks, seed):
    draw = np.random.default_rng(seed)
    count, batch = int(draw.integers(90, 110)), int(draw.integers(6, 10))
    return Training(
        samples=draw.normal(size=(count, 12)).astype(np.float32).astype(float),
        order=draw.permutation(count),
        batch=batch,
        rate=float(np.round(draw.uniform(0.3, 0.6), 2)),
        drawn=[
            {
                name: draw.normal(scale=0.3, size=shape).astype(np.float32).astype(float)
                for name, shape in SHAPES.items()
            }
            for _ in range(ranks)
        ],
    )


def _packed(given, rank):
    """Return what one rank is given, as base64 of an ``.npz`` file."""
    task = (given.samples, given.order, given.batch, given.rate)
    start = [array.astype(np.float32) for array in given.drawn[rank].values()]
    file = io.BytesIO()
    np.savez(file, **{f"task_{n}": v for n, v in enumerate(task)}, **{f"start_{n}": v for n, v in enumerate(start)})
    return base64.b64encode(file.getvalue()).decode()


def explain_failure(reply: dict, where: str) -> None:
    """Raise the sentence of a launch that did not come to its end."""
    require("missing" not in reply, f"there is no file {reply.get('missing')}: run the cell that writes it")
    require("unwritten" not in reply, f"{reply.get('unwritten')} is still to be written")
    require("ended" not in reply, f"{where}: {reply.get('ended')}")
    require(isinstance(reply.get("ranks"), list), f"{where}: its ranks left no records")
    ranks = [rank for rank in reply["ranks"] if isinstance(rank, dict)]
    errors = {place: rank["error"] for place, rank in enumerate(ranks) if isinstance(rank.get("error"), dict)}
    alone = {place for place, error in errors.items() if error.get("type") in LEFT_ALONE}
    for place in sorted(errors.keys() - alone, key=lambda place: str(errors[place].get("time"))):
        error = errors[place]
        message = " ".join(str(error.get("message")).split())[:MESSAGE]
        raise AssertionError(f"{where}: rank {place} raised {str(error.get('type'))[:100]}{_line(error)}: {message}")
    for place, rank in enumerate(ranks):
        status = rank.get("status")
        require(status in (0, None) or place in alone, f"{where}: rank {place} ended with status {status}")
    if reply.get("late"):  # then ranks are ended one after another, and the last may have noticed
        states = ", ".join(_state(rank, place) for place, rank in enumerate(ranks))
        raise AssertionError(f"{where} did not end within {reply.get('seconds', 0):g} s ({states}): {SAME_CALLS}")
    for place in alone:
        raise AssertionError(
            f"{where}: rank {place} waited{_line(errors[place])} for a rank that had ended: {SAME_CALLS}"
        )


def _line(error):
    return f" in line {error['line']}" if isinstance(error.get("line"), int) else ""


def _state(rank, place):
    lines = rank.get("lines") if isinstance(rank.get("lines"), list) else []
    made = sum(isinstance(line, dict) and line.get("event") == "step" for line in lines)
    return f"rank {place} {'ended' if rank.get('status') == 0 else 'waits'} after step {made}"


def _rank(record, place, where, count):
    """Read a rank's record, which nobody vouches for."""
    try:
        lines = [line for line in record["lines"] if line["event"] in ("begin", "step")]
        began = [_weights(line) for line in lines if line["event"] == "begin"]
        steps = tuple(_step(line, count) for line in lines if line["event"] == "step")
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise AssertionError(f"{where}: rank {place}'s record cannot be read ({error!r})"[:MESSAGE]) from None
    require(len(began) == 1, f"{where}: rank {place} called `begin` {len(began)} times, not once")
    require(steps, f"{where}: rank {place} noted no step")
    return Rank(began[0], steps, record.get("wrote") is True)


def _step(line, count):
    samples = np.array(line["samples"], dtype=np.int64).reshape(-1)
    if samples.size and not (0 <= samples.min() and samples.max() < count):
        raise ValueError("numbers that no sample has")
    return Step(samples, float(line["loss"]), int(line["counted"]), _weights(line))


def _weights(line):
    weights = {name: np.array(line["weights"][name], dtype=float) for name in SHAPES}
    if any(weights[name].shape != shape or not np.isfinite(weights[name]).all() for name, shape in SHAPES.items()):
        raise ValueError("weights of another shape, or not finite")
    return weights
