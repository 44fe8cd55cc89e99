"""Gradient descent of one weight, against finite differences, NumPy and simulated trainings."""

import itertools

import numpy
import pytest

from course.gradients import descent
from course.gradients.descent import EASY, NOISY

RATES = [0.001 * 2**k for k in range(9)]
MANY = descent.generated(64)


@pytest.mark.parametrize("data", [EASY, NOISY, MANY], ids=len)
def test_gradient_is_the_slope_of_the_loss(data):
    for w in (-1.5, 0.0, 2.0):
        slope = (descent.loss(w + 1e-5, data) - descent.loss(w - 1e-5, data)) / 2e-5
        assert descent.gradient(w, data) == pytest.approx(slope, rel=1e-6, abs=1e-6)
        assert descent.gradients(w, data).mean() == pytest.approx(slope, rel=1e-6, abs=1e-6)
    x, y = numpy.array(data, float).T
    (expected,), *_ = numpy.linalg.lstsq(x[:, None], y, rcond=None)
    assert descent.best_weight(data) == pytest.approx(expected)


def test_single_points_in_turn_give_the_published_weights():
    singles = descent.batches_of(EASY, 1)
    assert round(descent.descend(0, 0.001, singles, 4)[-1], 5) == 0.05891
    assert round(descent.descend(0, 0.001, singles, 100)[-1], 5) == 0.78086
    pairs = descent.batches_of(NOISY, 2)
    assert round(descent.descend(0, 0.001, pairs, 20)[-1], 5) == 0.26228
    assert descent.descend(3, 0.001, pairs, 0).tolist() == [3.0]


@pytest.mark.parametrize("data", [EASY, NOISY], ids=["easy", "noisy"])
def test_training_diverges_if_product_exceeds_one(data):
    for size, rate in itertools.product((1, 2, 3, 4), (*RATES, 0.149, 0.151, 10)):
        batches = descent.batches_of(data, size)
        factor = descent.pass_factor(rate, batches)
        with numpy.errstate(all="ignore"):  # how far two trainings are apart after each pass
            one, other = (descent.descend(w, rate, batches, 60 * len(batches))[:: len(batches)] for w in (0, 1))
            away = abs(one - other)
            grows = not away[-1] < 1.0
        assert grows == (abs(factor) > 1), (size, rate)
        assert away[1] == pytest.approx(abs(factor), rel=1e-6)
    assert descent.pass_factor(descent.rate_limit(data), [data]) == pytest.approx(-1)


@pytest.mark.parametrize("size", [1, 16])
def test_averaging_narrows_gradients_by_the_root_of_the_batch(size):
    one = descent.gradients(1.5, MANY).std()
    with_ = descent.batch_gradients(1.5, MANY, size, 20_000, seed=1)
    without = descent.batch_gradients(1.5, MANY, size, 20_000, seed=1, replace=False)
    assert with_.std() == pytest.approx(one / size**0.5, rel=0.03)
    finite = ((64 - size) / 63) ** 0.5
    assert without.std() == pytest.approx(one / size**0.5 * finite, rel=0.03)
    for drawn in (with_, without):
        assert drawn.mean() == pytest.approx(descent.gradient(1.5, MANY), abs=0.2)


@pytest.mark.parametrize("w", [0, 1.5])
@pytest.mark.parametrize("size", [1, 4, 64])
def test_the_best_step_follows_the_noise_scale(w, size):
    expected = descent.rate_limit(MANY) / 2 / (1 + descent.noise_scale(w, MANY) / size)
    assert descent.best_rate(w, MANY, size) == pytest.approx(expected, rel=0.06)


def test_only_equal_shards_step_like_one_batch():
    together = descent.exchange(0, 0.02, [NOISY])
    equal = descent.exchange(0, 0.02, [NOISY[:2], NOISY[2:]])
    unequal = descent.exchange(0, 0.02, [NOISY[:1], NOISY[1:]])
    assert equal.average == pytest.approx(together.average)
    assert equal.after == pytest.approx(together.after)
    assert unequal.average == pytest.approx(sum(unequal.gradients) / 2)
    assert abs(unequal.after - together.after) > 0.05
