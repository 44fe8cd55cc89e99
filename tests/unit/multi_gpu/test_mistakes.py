"""Every mistake of the bug hunt is caught by its check and by no other; the right script passes."""

import numpy
import pytest

from course.multi_gpu.mistakes import CHECKS

RANKS, STEPS, BATCH, RATE = 3, 4, 8, 0.05


def right():
    """Records of three ranks of a correct training, as plain data."""

    def step(rank, number):
        first = (number * RANKS + rank) * BATCH
        rate = float(numpy.float32(RATE * RANKS))  # as an optimizer keeps it
        seen = {"step": number + 1, "samples": [*range(first, first + BATCH)], "rate": rate}
        return seen | {"update": f"update{number}", "weights": f"model{number}"}

    facts = {"ranks": RANKS, "batch": BATCH, "rate_of_one_rank": RATE, "weights": "begin"}
    ends = ["weights.npz", None, None]
    return [
        {"rank": rank, **facts, "steps": [step(rank, number) for number in range(STEPS)]}
        | {"samples_counted": STEPS * BATCH, "wrote": ends[rank]}
        for rank in range(RANKS)
    ]


def shared_samples(seen):
    for rank in seen:
        for step, first in zip(rank["steps"], seen[0]["steps"]):
            step["samples"] = list(first["samples"])


def one_shared_sample(seen):
    seen[2]["steps"][1]["samples"][-1] = seen[0]["steps"][1]["samples"][0]


def not_broadcast(seen):
    for rank in seen:
        rank["weights"] += str(rank["rank"])
        for step in rank["steps"]:
            step["weights"] += str(rank["rank"])


def not_averaged(seen, since=0):
    for rank in seen:
        for step in rank["steps"][since:]:
            step["update"] += str(rank["rank"])
            step["weights"] += str(rank["rank"])


def counted_twice(seen):
    for rank in seen:
        rank["samples_counted"] *= RANKS


def not_scaled(seen):
    for rank in seen:
        for step in rank["steps"]:
            step["rate"] = RATE


def all_write(seen):
    for rank in seen:
        rank["wrote"] = "weights.npz"


MISTAKES = [
    (shared_samples, "own_samples"),
    (one_shared_sample, "own_samples"),
    (not_broadcast, "began_alike"),
    (not_averaged, "applied_alike"),
    (lambda seen: not_averaged(seen, since=STEPS - 1), "applied_alike"),
    (counted_twice, "counted_once"),
    (not_scaled, "scaled_rate"),
    (all_write, "one_writer"),
]


@pytest.mark.parametrize("mistake, check", MISTAKES)
def test_mistake_is_found_by_its_own_check_only(mistake, check):
    seen = right()
    mistake(seen)
    assert [test.__name__ for test in CHECKS.values() if test(seen)[0]] == [check]


def test_correct_script_passes_every_check():
    alone = right()[:1]
    not_scaled(alone)
    for seen in (right(), alone):
        assert not any(check(seen)[0] for check in CHECKS.values())
