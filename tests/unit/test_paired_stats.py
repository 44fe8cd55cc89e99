"""Paired differences: intervals worked out by hand, and what they decide."""

import math
from types import SimpleNamespace

import pytest
from scipy.stats import t, ttest_1samp

from ddl.paired_stats import Paired, by_seed, holm, paired


def test_differences_are_second_minus_first_over_common_seeds():
    result = paired({0: 1.0, 1: 2.0, 2: 3.0, 7: 99.0}, {2: 5.0, 1: 3.0, 0: 4.0, 8: -99.0})
    assert result.differences == (3.0, 1.0, 2.0)
    assert (result.n, result.mean) == (3, 2.0)


def test_the_interval_is_that_of_scipys_one_sample_test():
    result = Paired((0.4, -0.1, 0.9, 0.3, 0.35))
    interval = ttest_1samp(result.differences, 0).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))
    assert result.p == pytest.approx(ttest_1samp(result.differences, 0).pvalue)


def test_p_of_several_comparisons_is_corrected_for_their_number():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1, 1] and holm([]) == []


@pytest.mark.parametrize(
    ("mean", "half_width", "verdict"),
    [
        (0.2, 0.5, "within the margin"),
        (0.2, 0.9, "not decided"),  # reaches beyond the margin, and contains zero
        (1.5, 1.0, "better"),
        (-1.5, 1.0, "worse"),
        (0.5, 0.2, "within the margin"),  # not zero, but too small to matter
    ],
)
def test_the_interval_decides(mean, half_width, verdict):
    # Two differences d apart have a standard deviation of d / √2, so an interval of ±t d / 2.
    d = 2 * half_width / 12.7062
    result = Paired((mean - d / 2, mean + d / 2))
    assert result.half_width == pytest.approx(half_width, rel=1e-4)
    assert result.verdict(margin=1.0) == verdict
    with pytest.raises(ValueError, match="margin"):
        result.verdict(-1)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [({0: 1.0}, {1: 1.0}, r"no seed in common: \[0\] and \[1\]"), ({0: 1.0}, {0: math.nan}, "finite")],
)
def test_runs_without_pairs_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        paired(first, second)


def test_figures_of_one_seed_are_averaged_and_missing_ones_left_out():
    seeds, losses = (0, 0, 1, None, 3), (1.0, 2.0, None, 5.0, 4.0)  # one has diverged
    results = [{"seed": seed, "test_loss": loss} for seed, loss in zip(seeds, losses, strict=True)]
    results += [{"seed": 2}, {"test_loss": 5.0}, None]
    assert by_seed([SimpleNamespace(result=result) for result in results], "test_loss") == {0: 1.5, 3: 4.0}


@pytest.mark.parametrize(("deviation", "mean", "needed"), [(1, 2, 4), (1, -2, 4), (1, 20, 2), (1, 0.5, 18), (0, 1, 2)])
def test_needed_pairs_exclude_zero(deviation, mean, needed):
    assert Paired(tuple(mean + deviation * each for each in (-1, 0, 1))).needed == needed
    half_widths = {n: t.ppf(0.975, n - 1) * deviation / math.sqrt(n) for n in (needed - 1, needed) if n > 1}
    assert half_widths[needed] < abs(mean) and (needed == 2 or half_widths[needed - 1] >= abs(mean))
    # No number of pairs shows a difference that is not there.
    assert Paired((-1.0, 0.0, 1.0)).needed == Paired((1.0, 1e4, -1e4)).needed == math.inf
    assert math.isnan(Paired((1.0,)).needed)
