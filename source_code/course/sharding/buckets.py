"""Checks for a reader's own DDP: lesson 6b's classes ``Flat`` and ``Bucketed``, on real ranks.

`trial` launches them with a few tensors; ranks report the means, and the order in which tensors became ready, messages
began and were waited for. Checks raise AssertionError with one sentence.
"""

import numpy as np

from course.grader.launches import launched, require
from course.sharding.sharded import Trial

LAYERS = {"first": 6, "bias": 3, "second": 30, "third": 8, "last": 5}  # ready from the last to the first
BUCKET = 12
READY, FINISH, WAIT = -1, -2, -3  # as in `course.sharding.harness`
WANTED = [13, 30, 9]  # values in Bucketed's messages: last and third, second, and the rest in `finish`


def trial(file: str, ranks: int, seed: int) -> Trial:
    """Average gradients with both classes. Raises AssertionError if the file is missing, fails or times out."""
    draw = np.random.default_rng([seed, ranks])
    given = {
        "kind": np.array("ddp"),
        "names": np.array(list(LAYERS)),
        "sizes": np.array(list(LAYERS.values())),
        "gradients": draw.normal(size=(ranks, sum(LAYERS.values()))).astype(np.float32),
        "bucket": np.array(BUCKET),
    }
    return Trial(file, given, launched(file, ranks, {"given.npz": given}, program="course.sharding.harness"))


def flat_means(t: Trial) -> None:
    """Compare Flat's gradients with the mean over ranks."""
    _means(t, "Flat")


def bucketed_means(t: Trial) -> None:
    """Compare Bucketed's gradients with the mean over ranks."""
    _means(t, "Bucketed")


def one_message(t: Trial) -> None:
    """Look for more than one message in Flat, or one of another size."""
    sizes = _sizes(t, "Flat")
    total = sum(LAYERS.values())
    require(
        sizes == [total], f"{t.where()}: Flat sent messages of {sizes} values; one of {total} has all of the gradients"
    )


def few_messages(t: Trial) -> None:
    """Look for buckets that are sent too early, too late or again."""
    sizes = _sizes(t, "Bucketed")
    require(
        sizes == WANTED,
        f"{t.where()}: Bucketed sent messages of {sizes} values, not {WANTED}: a bucket is full at {BUCKET} values",
    )


def overlapped(t: Trial) -> None:
    """Look for buckets that only begin when all gradients are ready, and for waiting before that."""
    events = _events(t, "Bucketed")
    end = events.index(FINISH)
    require(
        WAIT not in events[:end],
        f"{t.where()}: Bucketed waits for a message while gradients are still computed: wait in `finish`",
    )
    late = sum(size > 0 for size in events[end:])
    require(
        late <= 1 and max(events[:end]) > 0,
        f"{t.where()}: Bucketed begins {late} messages in `finish`: begin each in `ready`, once its bucket is full",
    )


def _events(t, kind):
    return [int(event) for event in t.ranks[0].arrays[f"{kind}.events"]]


def _sizes(t, kind):
    return [event for event in _events(t, kind) if event > 0]


def _means(t, kind):
    gradients = t.given["gradients"].astype(float)
    twins = {"": gradients.mean(0), ": they are sums, not means": gradients.sum(0)}
    for step in (1, 2):
        found = t.read(f"{kind}.{step}", (gradients.shape[1],))
        for rank, means in enumerate(found):
            alike = [why for why, twin in twins.items() if np.allclose(means, twin, atol=1e-4)]
            why = alike[0] if alike else ""
            if not alike and t.size > 1 and np.allclose(means, gradients[rank], atol=1e-4):
                why = ": they are this rank's own"
            if not alike and np.allclose(np.sort(means), np.sort(twins[""]), atol=1e-4):
                why = ": they belong to other names"
            require(alike[:1] == [""], f"{t.where()}: {kind}'s gradients on rank {rank} are not the means{why}")
