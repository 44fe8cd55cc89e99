"""Checks for a reader's own DDP: lesson 6b's classes ``Flat`` and ``Bucketed``, on real ranks.

Ranks average a few tensors and report the means, and the order in which tensors became ready, messages began and were
waited for.
"""

import numpy as np

from course.grader.launches import require
from course.sharding.trial import Trial, compare, tried

LAYERS = {"first": 6, "bias": 3, "second": 30, "third": 8, "last": 5}  # ready from the last to the first
BUCKET = 12
READY, FINISH, WAIT = -1, -2, -3  # events, as in `course.sharding.harness`; a message's event is its length
WANTED = {"Flat": [52], "Bucketed": [13, 30, 9]}  # values in messages: last and third, second, and the rest in `finish`


def trial(file: str, ranks: int, seed: int) -> Trial:
    """Average gradients with both classes."""
    draw = np.random.default_rng([seed, ranks])
    given = {
        "names": np.array(list(LAYERS)),
        "sizes": np.array(list(LAYERS.values())),
        "gradients": draw.normal(size=(ranks, sum(LAYERS.values()))).astype(np.float32),
        "bucket": np.array(BUCKET),
    }
    return tried(file, ranks, "ddp", given)


def means(t: Trial, kind: str) -> None:
    """Compare the gradients of a class with the mean over ranks."""
    gradients = t.given["gradients"].astype(float)
    for step in (1, 2):
        for rank, found in enumerate(t.read(f"{kind}.{step}", gradients.shape[1:])):
            mistakes = {"they are sums, not means": gradients.sum(0), "they are this rank's own": gradients[rank]}
            compare(
                found, gradients.mean(0), mistakes, f"{t.where}: {kind}'s gradients on rank {rank} are not the means"
            )


def few_messages(t: Trial, kind: str) -> None:
    """Look for messages of a class that are sent too early, too late or again."""
    sizes = [event for event in _events(t, kind) if event > 0]
    why = "one message has all gradients" if kind == "Flat" else f"a bucket is full at {BUCKET} values"
    require(sizes == WANTED[kind], f"{t.where}: {kind} sent messages of {sizes} values, not {WANTED[kind]}: {why}")


def overlapped(t: Trial) -> None:
    """Look for buckets that only begin when all gradients are ready, and for waiting before that."""
    events = _events(t, "Bucketed")
    end = events.index(FINISH)
    require(
        WAIT not in events[:end],
        f"{t.where}: Bucketed waits for a message while gradients are still computed: wait in `finish`",
    )
    late = sum(size > 0 for size in events[end:])
    require(
        late <= 1 and max(events[:end]) > 0,
        f"{t.where}: Bucketed begins {late} messages in `finish`: begin each in `ready`, once its bucket is full",
    )


def _events(t, kind):
    return [int(event) for event in t.ranks[0].arrays[f"{kind}.events"]]
