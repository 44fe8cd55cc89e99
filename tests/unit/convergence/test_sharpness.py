from types import SimpleNamespace

import numpy
import pytest
from scipy.stats import spearmanr, ttest_1samp

from course.convergence.sharpness import between_settings, rank_correlation, sharpness, within_settings
from ddl.errors import InputError

DATA = {"name": "cifar10", "form": "official", "train_samples": 10_240, "test_samples": 10_000}


RESULT = dict(samples=2048, chunk=1024, data=DATA, clean_loss=0.2, test_loss=0.9, test_accuracy=0.75) | {
    "eigenvalue": {"eigenvalues": [12.0, 5.0], "residuals": [0.1, 0.3]},
    "invariant": {"eigenvalues": [30.0], "residuals": [0.2]},
    "trace": {"mean": 400.0, "error": 12.0},
    "noise": {"noise_scale": 1500.0, "noise_scale_error": 90.0},
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


def test_the_interval_covers_the_true_correlation_about_as_often_as_it_says():
    generator = numpy.random.default_rng(1)
    true = 6 / numpy.pi * numpy.arcsin(0.7 / 2)  # Spearman's, of a normal pair whose Pearson's is 0.7
    covered = []
    for _ in range(60):
        x, noise = generator.normal(size=(2, 40))
        found = rank_correlation(x, 0.7 * x + numpy.sqrt(1 - 0.7**2) * noise)
        covered.append(found.low <= true <= found.high)
    assert 50 <= sum(covered)


def test_settings_may_rise_together_where_their_seeds_fall():
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
    with pytest.raises(InputError, match="needs 4 settings with several seeds, got 2"):
        within_settings(table.tail(9), "sharpness", "test_error")


def test_a_row_a_network():
    table = sharpness([run("small batch"), run("large batch", seed=1, trace=None, noise=None)])
    first, second = table.to_dict("records")
    assert (first["arm"], first["sharpness"], first["invariant"], first["test_error"]) == ("small batch", 12, 30, 25)
    assert (first["trace"], first["trace_error"], first["noise_scale"]) == (400, 12, 1500)
    assert second["seed"] == 1 and numpy.isnan(second["trace"]) and numpy.isnan(second["noise_scale"])
    assert "2,048 training images" in repr(table) and "–" in repr(table)
    assert table.readable().iloc[0].tolist()[-4:] == ["400", "12", "1,500", "90"]
