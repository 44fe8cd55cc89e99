"""The verdict on a file's runs."""

import math

import pytest
from scipy import stats

from course.challenge import rules
from course.challenge.verdict import Score, median_interval, p_value
from ddl.errors import InputError

GOOD = (0.731, 0.728, 0.735, 0.73, 0.733)


def score(accuracies=GOOD, **options):
    return Score("mine.py", tuple(accuracies), **{"samples": 180_224, "target": 0.72, **options})


def test_p_is_that_of_students_one_sided_test():
    for accuracies in (GOOD, (0.70, 0.74, 0.73, 0.72, 0.715), (0.1, 0.73, 0.74, 0.73, 0.72, 0.71)):
        expected = stats.ttest_1samp(accuracies, 0.72, alternative="greater").pvalue
        assert p_value(accuracies, 0.72) == pytest.approx(expected, rel=1e-9)
    for accuracies, p in (([], 1), ([0.99], 1), ([0.73] * 5, 0), ([0.72] * 5, 1), ([0.71] * 5, 1)):
        assert p_value(accuracies, 0.72) == p


ALL_CRASHED = {"accuracies": [rules.CHANCE] * 5, "samples": None, "target": 0.05}


@pytest.mark.parametrize(
    ("options", "counts", "verdict"),
    [
        ({}, True, "counts: mean 73.14% ± "),
        ({"accuracies": (0.9, 0.901, 0.902, 0.903)}, False, "at least 5 are needed"),
        ({"left": 1}, False, "not done: 1 of 6 runs to come"),
        ({"accuracies": (*GOOD[:4], rules.CHANCE)}, False, ""),
        (ALL_CRASHED, False, "none of 5 runs came to its end"),
        ({"trial": True}, False, "a trial, which does not count"),
    ],
    ids=["good", "four", "one to come", "one crashed", "all crashed", "trial"],
)
def test_enough_good_runs_count_and_nothing_else(options, counts, verdict):
    found = score(**options)
    assert found.counts == counts and verdict in found.verdict
    assert not counts or found.p < rules.ALPHA


def test_each_further_look_halves_the_p_that_is_needed():
    assert [rules.level(looks) for looks in (1, 2, 3)] == [0.01, 0.005, 0.0025]
    p = score().p
    looks = 1
    while rules.level(looks) > p:
        assert score(looks=looks).counts
        looks += 1
    assert looks > 1 and not score(looks=looks).counts


def test_what_is_no_accuracy_or_ratio_of_times_is_refused():
    for field, wrong in (
        *(("accuracies", value) for value in (math.nan, math.inf, -0.1, 1.0001)),
        *(("ratios", value) for value in (math.nan, math.inf, 0.0, -1.0)),
    ):
        with pytest.raises(InputError, match="between 0 and 1" if field == "accuracies" else "above 0"):
            score(**{field: (1.0, wrong)})


def test_the_interval_of_a_median_lies_between_ranks():
    for n, ranks, sure in ((5, (1, 5), 0.9375), (6, (1, 6), 0.96875), (9, (2, 8), 0.9609375), (1, (1, 1), 0)):
        assert median_interval(list(range(n, 0, -1))) == (*ranks, pytest.approx(sure))
    found = score(ratios=(0.8, 0.9, 5.0))
    assert found.ratio == 0.9 and "0.90 of the baseline's, 0.80 to 5.00 (75% sure), 3 pairs" in repr(found)


def test_a_person_looks_at_what_is_too_fast_to_believe():
    assert score().look == ""
    fast = int(0.2 * rules.BASELINE_SAMPLES)
    assert "20% of the baseline's samples" in score(samples=fast).look
    assert score((0.5, 0.51, 0.52, 0.5, 0.5), samples=fast).look == ""


def test_points_are_those_of_the_narrowest_band():
    passes = rules.TRAIN_SAMPLES
    for count, worth in {5: 0, 4: 4, 3.5: 4, 3: 6, 2: 8, 1.6: 8, 1.5: 10, 0.5: 10}.items():
        assert rules.points(True, int(count * passes)) == worth
    assert rules.points(False, passes) == 0
    assert rules.points(True, 4 * passes + 1) == 0


def test_workers_divide_the_batch():
    for workers in (2, 1024):
        rules.check_workers(workers)
    for workers in (0, 1, 3, 2048, -2, 2.0, True, "2"):
        with pytest.raises(InputError, match=r"1,024 is divided equally"):
            rules.check_workers(workers)
