from types import SimpleNamespace

import numpy
import pytest
from scipy.stats import spearmanr, ttest_1samp

from course.convergence.sharpness import between_settings, rank_correlation, sharpness, within_settings
from ddl.errors import InputError

DATA = {"name": "cifar10", "form": "official", "train_samples": 10_240, "test_samples": 10_000}


RESULT = dict(samples=2048, data=DATA, clean_loss=0.2, test_loss=0.9, test_accuracy=0.75) | {
    "eigenvalue": {"eigenvalues": [12.0, 5.0], "residuals": [0.1, 0.3]},
    "invariant": {"eigenvalues": [30.0], "residuals": [0.2]},
}


def run(trained, seed=0, rate=0.1, **fields):
    about = {"name": trained, "learning_rate": rate}
    return SimpleNamespace(name="landscape", result={**RESULT, "run": about, "seed": seed, **fields})


def test_the_rank_correlation_is_spearmans():
    generator = numpy.random.default_rng(0)
    x = generator.integers(0, 8, size=30)  # with ties
    y = x + generator.normal(scale=3, size=30)
    found = rank_correlation(x, y)
    assert found.value == pytest.approx(spearmanr(x, y).statistic)
    assert found.low < found.value < found.high and found.n == 30
    perfect = rank_correlation([1, 2, 3, 4, 5], [10, 11, 100, 1000, 1e6])  # only the order counts
    assert (perfect.value, perfect.low, perfect.high) == pytest.approx((1, 1, 1))


def test_correlation_between_and_within_settings_can_differ():
    runs = [
        run(batch, seed, rate, eigenvalue={"eigenvalues": [level + seed / 10]}, test_accuracy=0.7 - level / 100 + late[seed])
        for late, level, batch, rate in zip(
            ([0, 1e-4, 2e-4], [0, 2e-4, 1e-4], [1e-4, 2e-4, 3e-4], [3e-4, 4e-4, 5e-4], [0, 0, 0]),
            (1, 2, 3, 4, 5), ("small", "small", "large", "large", "large"), (0.1, 0.2, 0.1, 0.2, 0.4), strict=True
        )
        for seed in range(3)
    ]  # fmt: skip
    table = sharpness(runs)
    between, within = (found(table, "sharpness", "test_error") for found in (between_settings, within_settings))
    assert (between.value, between.n) == (pytest.approx(1), 5)
    # Of four: the fifth's seeds don't differ in their errors. -1, -1/2, -1, -1: -0.875 ± 3.182 × 0.25 / 2.
    assert (within.value, within.low, within.high) == pytest.approx((-0.875, -1.2728, -0.4772), abs=1e-4)
    assert within.p == pytest.approx(ttest_1samp([-1, -0.5, -1, -1], 0).pvalue)
    assert str(within) == "rank correlation -0.88 (95 %: -1.27 to -0.48, within 4 settings)"
    with pytest.raises(InputError, match="got 2"):
        within_settings(table.tail(9), "sharpness", "test_error")
