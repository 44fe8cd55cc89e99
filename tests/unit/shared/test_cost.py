"""The alpha-beta model: closed forms, a simulation of the messages, and what a fit recovers."""

import numpy
import pytest

from course.shared.cost import ALGORITHMS, fit, ring, terms

SIZES = [4**power for power in range(1, 14)]
ALPHA, BETA = 30e-6, 1 / 5e9


def noisy(ranks, deviation=0.0, outliers=0, seed=0):
    draw = numpy.random.default_rng(seed)
    seconds = ring(numpy.array(SIZES, float), ranks, ALPHA, BETA)
    seconds *= numpy.exp(draw.normal(0, deviation, len(SIZES)))
    seconds[draw.choice(len(SIZES), outliers, replace=False)] *= 8
    return list(zip(SIZES, seconds.tolist(), strict=True))


@pytest.mark.parametrize(
    "algorithm, ranks, messages, share",
    [
        ("ring", 2, 2, 1),
        ("ring", 8, 14, 14 / 8),
        ("ring", 5, 8, 8 / 5),
        ("recursive doubling", 2, 1, 1),
        ("recursive doubling", 8, 3, 3),
        ("recursive doubling", 6, 4, 4),  # 4 ranks' two steps, and two messages around them
        ("halving and doubling", 2, 2, 1),
        ("halving and doubling", 8, 6, 14 / 8),
        ("halving and doubling", 6, 6, 2 * 3 / 4 + 2),
        ("tree", 2, 2, 2),
        ("tree", 8, 6, 6),
        ("tree", 5, 6, 6),
    ],
)
def test_an_algorithm_costs_its_messages_and_bytes(algorithm, ranks, messages, share):
    assert terms(algorithm, ranks) == pytest.approx((messages, share))
    seconds = ALGORITHMS[algorithm](1e6, ranks, ALPHA, BETA)
    assert seconds == pytest.approx(messages * ALPHA + share * 1e6 * BETA)


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_fit_recovers_what_points_were_made_of(ranks):
    found = fit(noisy(ranks), ranks)
    assert (found.alpha_s, found.beta_s_per_byte) == pytest.approx((ALPHA, BETA), rel=0.02)
    assert found.error < 1e-6 and max(map(abs, found.residuals)) < 1e-6
    assert found(1e6) == pytest.approx(ring(1e6, ranks, ALPHA, BETA))
    assert found.bandwidth_gb_per_s == pytest.approx(5)


def test_fit_separates_startup_from_message_latency():
    ranks = [count for count in (2, 3) for _ in SIZES]
    points = [(size, 2e-3 + ring(size, count, ALPHA, BETA)) for count, size in zip(ranks, 2 * SIZES, strict=True)]
    found = fit(points, ranks)
    assert found.operation_s == pytest.approx(2e-3, rel=0.01) and found.alpha_s == pytest.approx(ALPHA, rel=0.05)
    assert "2e+03 µs once" in str(found)
    # Paid for each of 126 messages, it would be twenty times as much on 64 ranks.
    assert found(4, 64) == pytest.approx(2e-3 + 126 * ALPHA, rel=0.02)
    alone = fit(points[: len(SIZES)], 2)
    assert alone.operation_s is None and 63 * alone(4) > 15 * found(4, 64)
    with pytest.raises(ValueError, match="all points have 2 ranks"):
        alone(4, 64)
