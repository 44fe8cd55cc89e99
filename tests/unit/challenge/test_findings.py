"""What the challenge's recorded runs show: by hand, and by going through all choices."""

import itertools
import statistics
from types import SimpleNamespace

import pytest

from course.challenge.findings import ablations, best_of
from ddl.errors import InputError

SAME = {"name": "file", "test_accuracy": 0.5, "held_out": "validation"}


def runs(**configurations):
    """Return runs of each configuration, one a seed, with these private accuracies."""
    return [
        SimpleNamespace(
            result={"configuration": configuration.replace("_", " "), "seed": seed, "private_accuracy": found, **SAME}
        )
        for configuration, accuracies in configurations.items()
        for seed, found in enumerate(accuracies)
    ]


WHOLE = (0.80, 0.82, 0.81)


@pytest.mark.parametrize("values", [(1.0,), (3.0, 1.0, 2.0), (5, 5, 1, 2, 2, 9)])
def test_expected_best_of_k_is_the_mean_over_all_choices(values):
    for k in range(1, len(values) + 1):
        choices = [max(chosen) for chosen in itertools.combinations(values, k)]
        assert best_of(values, k) == pytest.approx(statistics.fmean(choices))
    for k in (0, len(values) + 1):
        with pytest.raises(InputError, match=f"between 1 and all {len(values)}"):
            best_of(values, k)


def test_ablations_are_paired_by_seed():
    # Differences of whitening: −2, −3, −1 points, standard deviation 1, and t of two degrees of freedom 4.3027.
    given = runs(without_flip=(0.805, 0.815, 0.81), whole=WHOLE, without_whitening=(0.78, 0.79, 0.80))
    table = ablations(given, "whole")
    assert list(table["trick"]) == ["whitening", "flip"]
    row = table.iloc[0]
    assert (row["difference_points"], row["pairs"]) == (pytest.approx(-2), 3)
    assert (row["low_points"], row["high_points"]) == pytest.approx((-2 - 2.4842, -2 + 2.4842), abs=1e-4)
    assert row["needed"] == 4  # 3.182 / 2 < 2 points, and 4.303 / √3 is not
    assert row["p"] == pytest.approx(2 * 0.0742, rel=0.01)  # t = 2 √3 of two degrees of freedom, twice as two tricks
    assert "81.0 %" in repr(table)
