"""Judge a training that a reader has made distributed: lesson 3's exercise, by what its ranks read, sent and noted.

A test draws the samples' order, and each rank's own samples and weights, and has the reader's script launched with them
(`training`). The grader hands them out and notes which samples a rank has read; no rank has those of another, though
they have the same numbers. What a script says itself is not believed: every check computes in NumPy, in float64, what a
rank must have found with its samples at these weights, and that has to have gone through Horovod or torch.distributed.
Each mistake has a check of its own, which raises AssertionError with a sentence that says where the mistake shows.
"""

from types import SimpleNamespace

import numpy as np

from course.grader.launched import TRAINED, Training, require, training
from course.training.task import SHAPES, loss_and_gradients

__all__ = [
    "CHECKS", "averaged", "began_alike", "frozen_and_tied", "one_writer", "own_samples", "same_weights", "scaled",
    "training", "true_metrics",
]  # fmt: skip

CLOSE = 2e-3  # relative; float32 rounds to about 1e-4 of an update here
AS_SENT = 1e-2  # relative; gradients may have been sent as float16


# ---------------------------------------------------------------- the checks


def same_weights(t: Training) -> None:
    """Compare the weights with those of one device on the same samples, and see that ranks made them together."""
    _begins_drawn(t)
    weights = {name: t.ranks[0].began[name] for name in SHAPES}
    for number in range(len(t.global_batches())):
        gradients = _mean([loss_and_gradients(weights, samples)[1] for samples in _global_batch(t, number)])
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
    _through_collectives(t)


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
    for u in _updates(t):
        require(
            u.number == _looked_at(t)[0] or any(_along(u.moved["outer"], own["outer"]) for own in (u.mean, *u.every)),
            f"{u.where} did not train on the samples that it took",
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
    for u in _updates(t):
        own = all(_along(u.moved[name], u.own[name]) for name in TRAINED)
        what = "the gradient of its own samples only" if own else "something else"
        require(
            all(_along(u.moved[name], u.mean[name]) for name in TRAINED),
            f"{u.where} applied {what}, not the mean of all ranks' gradients",
        )
    _through_collectives(t)


def scaled(t: Training) -> None:
    """Look for updates that do not have the learning rate of the global batch (Goyal et al. 2017, section 2.1)."""
    wanted = t.size * t.rate
    for u in _updates(t):
        moved, gradients = u.moved["outer"], (u.mean["outer"], u.own["outer"])
        lengths = [_factor(moved, gradient) for gradient in gradients if _along(moved, gradient)]
        require(lengths, f"{u.where}'s update follows no gradient, so its learning rate cannot be seen")
        found = min(lengths, key=lambda length: abs(length - wanted))
        why = "the rate of one rank's batch" if np.isclose(found, t.rate, rtol=0.01) else "another factor"
        why = "scaled twice, or summed and scaled" if np.isclose(found, t.size * wanted, rtol=0.01) else why
        require(
            np.isclose(found, wanted, rtol=0.01),
            f"{u.where}'s update is {found:.3g} times the gradient, {why}; the global batch's rate is "
            f"{t.size} × {t.rate:.3g}",
        )


def began_alike(t: Training) -> None:
    """Look for ranks that begin with other trained weights than rank 0."""
    for index, rank in enumerate(t.ranks):
        require(
            _alike(rank.began, t.ranks[0].began, TRAINED),
            f"on {t.size} ranks, rank {index} began with other weights than rank 0",
        )
    silent = [index for index, rank in enumerate(t.ranks) if not rank.called]
    require(not silent, f"on {t.size} ranks, rank {(silent or [0])[0]} began before any collective")
    _begins_drawn(t)


def frozen_and_tied(t: Training) -> None:
    """Look for frozen weights that differ or move, and for a tied matrix whose two uses do not both count."""
    for index, rank in enumerate(t.ranks):
        require(
            not _together(t) or _alike(rank.began, t.ranks[0].began, ["frozen"]),
            f"on {t.size} ranks, rank {index}'s frozen weights are not rank 0's: weights that nobody trains have to be "
            "sent, too",
        )
    for u in _updates(t):
        require(not u.moved["frozen"].any(), f"{u.where}'s frozen weights have moved")
        right = any(
            _along(u.moved["tied"], along["tied"])
            and np.isclose(*(_factor(u.moved[name], along[name]) for name in ("tied", "outer")), rtol=0.01)
            for along in (u.mean, u.own)
        )
        require(right, f"{u.where}'s tied weights did not move by the gradient of both their uses")


def true_metrics(t: Training) -> None:
    """Look for losses that are not the mean over all ranks, and for samples that are miscounted."""
    for u in _updates(t):
        mean = float(np.mean(u.losses))
        different = len(set().union(*(rank.steps[u.number].samples.tolist() for rank in t.ranks)))
        own = ", which is that of its own samples" if np.isclose(u.step.loss, u.losses[u.index], rtol=CLOSE) else ""
        require(
            np.isclose(u.step.loss, mean, rtol=CLOSE),
            f"{u.where} reported a loss of {u.step.loss:.4g}{own}; the mean of all ranks' is {mean:.4g}",
        )
        require(
            u.step.counted in (different, t.batch * t.size),  # who shares samples has another mistake
            f"{u.where} counted {u.step.counted} samples; all ranks together trained on {different}",
        )


def one_writer(t: Training) -> None:
    """Look for a file of weights that a rank other than rank 0 writes."""
    writers = [index for index, rank in enumerate(t.ranks) if rank.wrote]
    require(writers, f"on {t.size} ranks, no rank wrote the weights")
    others = ", ".join(str(index) for index in writers if index)
    require(not others, f"on {t.size} ranks, rank {others} wrote the weights; rank 0 alone is to")
    require(0 in writers, f"on {t.size} ranks, rank 0 did not write the weights")


CHECKS = (
    same_weights, own_samples, averaged, scaled, began_alike, frozen_and_tied, true_metrics, one_writer
)  # fmt: skip


# ---------------------------------------------------------------- what is computed here


def _global_batch(t, number):
    """Return the samples of a step, each in the ``[readers, 12]`` versions that its readers have; else in rank 0's."""
    read = [set(rank.steps[number].samples.tolist()) if number < len(rank.steps) else () for rank in t.ranks]
    for sample in t.global_batches()[number].tolist():
        readers = [index for index, numbers in enumerate(read) if sample in numbers]
        yield t.samples[readers or [0], sample]


def _through_collectives(t):
    """Look for a rank whose own gradient went through no collective of Horovod or torch.distributed in a step."""
    for u in _updates(t):
        require(
            all(any(_carries(array, u.own[name], u.before[name]) for array in u.step.sent) for name in TRAINED),
            f"{u.where} passed the gradient of its own samples to no collective",
        )


def _carries(sent, gradient, weights):
    """Whether consecutive numbers of `sent` are a multiple of a gradient, plus any multiple of the weights.

    The second is for those who take a step of their own, and average weights.
    """
    if sent.size < gradient.size:
        return False
    basis = np.stack([gradient.ravel(), weights.ravel()], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(sent, gradient.size)
    with np.errstate(all="ignore"):
        times = windows @ np.linalg.pinv(basis).T
        off = np.linalg.norm(windows - times @ basis.T, axis=1)
        return bool(np.any(off < AS_SENT * np.linalg.norm(times[:, :1] * gradient.ravel(), axis=1)))


def _updates(t):
    """Yield what is to be compared of each rank in each step that can be looked at.

    ``where`` it is, in words, and by ``number`` of the step and ``index`` of the rank; the rank's ``step``, its weights
    ``before`` that and how they ``moved``; its ``own`` gradient at these weights, that of ``every`` rank, their
    ``mean``, and the ``losses`` of all.
    """
    for number in _looked_at(t):
        found = [
            loss_and_gradients(rank.before(number), samples[rank.steps[number].samples])
            for rank, samples in zip(t.ranks, t.samples, strict=True)
        ]
        losses, every = zip(*found, strict=True)
        for index, rank in enumerate(t.ranks):
            step, before = rank.steps[number], rank.before(number)
            yield SimpleNamespace(
                where=f"in step {number + 1} on {t.size} ranks, rank {index}", number=number, index=index, step=step,
                before=before, moved={name: before[name] - step.weights[name] for name in SHAPES},
                own=every[index], every=every, mean=_mean(every), losses=losses,
            )  # fmt: skip


def _mean(gradients):
    return {name: np.mean([own[name] for own in gradients], axis=0) for name in TRAINED}


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
