"""Moments of training on random batches against simulations, and the gradient lesson's claims."""

import math
from itertools import pairwise

import numpy
import pytest

from course.gradients import descent, sgd

MANY = descent.generated(64)  # the lesson's points
BEST = descent.best_weight(MANY)
RATE = 0.0018  # the lesson's
LATER = pytest.mark.slow("source_code/course/gradients/*")


def trained(lr, size, steps, count=20_000):
    """Train `count` times from 0, each on its own random batches: the weights, float, shape (count, steps + 1)."""
    x, y = MANY.T
    random = numpy.random.default_rng(1)
    weights = [numpy.zeros(count)]
    for _ in range(steps):
        drawn = random.integers(len(x), size=(count, size))
        before = weights[-1][:, None]
        weights.append(weights[-1] - lr * numpy.mean(2 * x[drawn] * (before * x[drawn] - y[drawn]), axis=1))
    return numpy.array(weights).T


@pytest.mark.parametrize(
    "lr, size", [(RATE, 1), (0.0072, 4), pytest.param(0.0288, 16, marks=LATER), pytest.param(0.06, 4, marks=LATER)]
)
def test_moments_are_those_of_many_trainings(lr, size):
    weights = trained(lr, size, steps=150)
    lowest = descent.loss(BEST, MANY)
    simulated = numpy.array([descent.loss(weights[:, step], MANY).mean() - lowest for step in (0, 1, 10, 150)])
    computed = sgd.excess_losses(0.0, lr, size, MANY, 150)
    assert computed[[0, 1, 10, 150]] == pytest.approx(simulated, rel=0.06)
    spread = sgd.settled_spread(lr, size, MANY)
    assert sgd.rate_of_spread(spread, size, MANY) == pytest.approx(lr)
    if (1 - 2 * lr * (MANY[:, 0] ** 2).mean()) ** 300 < 1e-3:  # settled by then
        assert weights[:, -1].std() == pytest.approx(spread, rel=0.03)


@pytest.mark.parametrize("size", [1, 4, 64, math.inf])
def test_mean_loss_diverges_beyond_limit(size):
    border = sgd.rate_border(size, MANY)
    below, above = (sgd.excess_losses(0.0, factor * border, size, MANY, 4000) for factor in (0.99, 1.01))
    assert below[-1] == pytest.approx(below[-2]) and below[-1] < 1e3 and not above[-1] < 1e10
    assert numpy.isfinite(sgd.settled_spread(0.99 * border, size, MANY))
    assert numpy.isinf(sgd.settled_spread([border * 1.001, 1.0], size, MANY)).all()


def test_steps_are_the_first_that_reach_the_target():
    losses = sgd.excess_losses(0.0, [RATE, 0.5], 4, MANY, 200)
    steps = sgd.steps_to(0.05, 0.0, [RATE, 0.5], 4, MANY)
    assert steps.tolist() == [103, math.inf]
    assert losses[103, 0] <= 0.05 < losses[102, 0]
    assert sgd.steps_to(0.05, BEST, RATE, 1, MANY) == 0


def test_spread_depends_on_rate_over_batch_size():
    one = sgd.settled_spread(RATE, 1, MANY)
    for size in (4, 16):
        assert sgd.settled_spread(RATE * size, size, MANY) == pytest.approx(one, rel=0.12)
        assert sgd.settled_spread(RATE * size**0.5, size, MANY) == pytest.approx(one / size**0.25, rel=0.05)
        assert sgd.settled_spread(RATE, size, MANY) == pytest.approx(one / size**0.5, rel=0.02)
    # To first order only: the lower the rate, the nearer the factor to the batch size.
    factors = [sgd.rate_of_spread(sgd.settled_spread(lr, 1, MANY), 16, MANY) / lr for lr in (RATE, 0.00018)]
    assert factors == pytest.approx([13.5, 15.7], abs=0.1)


def test_divergence_limit_of_random_batches():
    assert sgd.rate_border(1, MANY) == pytest.approx(0.103, abs=5e-4)
    assert sgd.rate_border(math.inf, MANY) == pytest.approx(0.144, abs=5e-4)
    # One after another in their order, the same points diverge later: their product decides.
    singles = descent.batches_of(MANY, 1)
    assert abs(descent.pass_factor(0.180, singles)) < 1 < abs(descent.pass_factor(0.181, singles))


def test_steps_fall_as_rate_grows_with_batch():
    steps = {size: sgd.steps_to(0.05, 0.0, RATE * size, size, MANY) for size in (1, 2, 4, 8, 16, 32, 64)}
    assert [steps[size] for size in (1, 16)] == [115, 6] and steps[64] == math.inf
    assert all(0.8 <= steps[size] * size / steps[1] <= 1 for size in (2, 4, 8, 16, 32))
    at_one_rate = [sgd.steps_to(0.05, 0.0, RATE, size, MANY) for size in (1, 256)]
    assert at_one_rate == [115, 100]


def test_batch_step_equals_single_steps_to_first_order():
    easy = descent.EASY
    singles, batch = descent.batches_of(easy, 1), [easy]
    apart = []
    for lr in (0.002, 0.001, 0.0005):
        steps, step = descent.descend(0, lr, singles, 4)[-1], descent.descend(0, 4 * lr, batch, 1)[-1]
        apart.append(abs(step - steps) / steps)
    assert apart[1] == pytest.approx(0.0185, abs=5e-4)
    assert [a / b for a, b in pairwise(apart)] == pytest.approx([2, 2], rel=0.05)
