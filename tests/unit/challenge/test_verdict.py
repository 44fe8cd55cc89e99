"""The verdict on a file's runs, and its points."""

import math

import pytest
from scipy import stats

from course.challenge import rules
from course.challenge.verdict import Score

GOOD = (0.731, 0.728, 0.735, 0.73, 0.733)


def score(accuracies=GOOD, **options):
    return Score("mine.py", tuple(accuracies), **{"samples": 180_224, **options})


def test_p_value_is_students_one_sided_test():
    for accuracies in (GOOD, (0.70, 0.74, 0.73, 0.72, 0.715), (0.1, 0.73, 0.74, 0.73, 0.72, 0.71)):
        expected = stats.ttest_1samp(accuracies, rules.TARGET, alternative="greater").pvalue
        assert score(accuracies).p == pytest.approx(expected, rel=1e-9)
    for accuracies, p in (([], 1), ([0.73] * 5, 0), ([rules.TARGET] * 5, 1), ([0.71] * 5, 1)):
        assert score(accuracies).p == p


@pytest.mark.parametrize(
    ("options", "counts", "verdict"),
    [
        ({}, True, "counts: mean 73.14% ± "),
        ({"accuracies": (0.9, 0.901, 0.902, 0.903)}, False, ""),
        ({"left": 1}, False, "not done: 1 of 6 runs to come"),
        ({"accuracies": (*GOOD[:4], rules.CHANCE)}, False, "is not shown"),
        ({"accuracies": (0.9,) * 5, "failure": "it ended"}, False, "it ended"),
        ({"trial": True}, False, "a trial, which does not count"),
        ({"data": "synthetic"}, False, "is not shown"),
    ],
)
def test_score_counts_only_if_shown_above_target(options, counts, verdict):
    found = score(**options)
    assert found.counts == counts and verdict in found.verdict


def test_points_follow_the_ratio():
    for ratio, worth in {2: 0, 1.06: 0, 1.05: 4, 0.9: 4, 0.8: 6, 0.65: 8, 0.5: 10, 0.1: 10, math.nan: 0}.items():
        assert rules.points(True, ratio) == worth
    assert rules.points(False, 0.1) == 0
