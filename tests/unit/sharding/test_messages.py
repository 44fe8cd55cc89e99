"""Cost of fewer bytes: differences of made-up runs, paired by seed."""

from types import SimpleNamespace

import pytest

from course import messages
from ddl.errors import InputError

RUNS = [
    SimpleNamespace(name=name, result=dict(seed=seed, held_out_loss=loss, sent_bytes=sent, finished="2026-11-25T12:00"))
    for name, sent, losses in (
        ("few", 10, {0: 1.5, 1: 1.7, 9: 9.0}),  # a seed that the baseline has not
        ("all-reduce", 400, {0: 1.0, 1: 1.0, 2: 1.0}),
        ("half", 200, {2: 1.1, 1: 0.9, 0: 1.0}),
    )
    for seed, loss in losses.items()
]


def test_ways_are_compared_with_an_all_reduce_of_the_same_seed():
    half, few = messages.differences(RUNS)
    assert (half.name, half.sent_share, few.name, few.sent_share) == ("half", 0.5, "few", 0.025)
    assert sorted(half.pairs.differences) == pytest.approx([-0.1, 0, 0.1])
    assert sorted(few.pairs.differences) == pytest.approx([0.5, 0.7])
    with pytest.raises(InputError, match="no run named 'all-reduce' to compare with; available: few"):
        messages.differences(RUNS[:3])
