"""Bytes of a rank by arithmetic: numbers of the ZeRO paper, and small ones by hand."""

import pytest

from course import memory


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_stages_of_zero_need_what_the_paper_says(stage, gigabytes):
    """Rajbhandari et al. 2020, figure 1: 7.5 billion weights on 64 ranks, Adam in mixed precision."""
    needed = sum(memory.per_rank(7_500_000_000, mixed=True, stage=stage, ranks=64).values())
    assert needed / 1e9 == pytest.approx(gigabytes, abs=0.06)


@pytest.mark.parametrize(
    ("options", "bytes_"),
    [
        ({}, [40, 40, 80]),
        (dict(mixed=True), [20, 20, 120]),
        (dict(stage=2, ranks=4), [40, 12, 24]),  # 10 weights on 4 ranks: parts of 3, padded
        (dict(stage=3, ranks=4, mixed=True), [6, 6, 36]),
    ],
)
def test_weights_gradients_and_state_of_ten_weights(options, bytes_):
    assert list(memory.per_rank(10, **options).values()) == bytes_


def test_a_network_counted_by_hand():
    network = memory.Network(width=2, depth=3, heads=1, length=5, batch=7)
    attention, perceptron = 2 * 6 + 2 * 2, 2 * 8 + 8 * 2
    assert network.parameters == 3 * (attention + perceptron) + (14 + 5) * 2 + 2 * 14
    assert network.activations() == 3 * (15 * 70 + 7 * 25)
    assert network.checkpoints == 6 * 70
    for sequence, whole, split in ((False, 6, 9), (True, 0, 15)):
        assert network.activations(2, sequence) == 3 * (whole * 70 + split * 35 + 7 * 25 / 2)


@pytest.mark.parametrize(
    ("stage", "ranks", "checkpoint", "numbers"),
    [
        (0, 1, False, 17_288),
        (0, 1, True, 744),
        (2, 2, False, 17_288 + 1_420),
        (3, 2, False, 744 + 1_420),
        (1, 2, True, 744),
    ],
)
def test_activations_count_where_they_are_more_than_gradients(stage, ranks, checkpoint, numbers):
    network = memory.Network(width=8, depth=3, heads=2, length=16, batch=4)
    assert (network.parameters, network.activations(), network.checkpoints) == (2_656, 29_184, 3_072)
    predicted = memory.predicted(network, stage, ranks, checkpoint)
    parts = 1_328 if stage >= 2 else 2_656
    whole = 3_072 if checkpoint or stage == 3 else 29_184
    assert predicted["activations"] == 4 * (whole - parts)
    assert predicted["copies"] / (4 * 4 * 64) == (memory.COPIES[stage] if ranks > 1 else 1)
