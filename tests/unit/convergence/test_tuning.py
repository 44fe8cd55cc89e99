"""Grids of learning rates: the best one, its edges, and what failed."""

import math
from types import SimpleNamespace

import pytest

from course.convergence.tuning import grids


def run(rate, accuracy, name="a", **fields):
    return SimpleNamespace(name=name, result={"learning_rate": rate, "test_accuracy": accuracy, **fields})


def test_the_best_rate_has_the_highest_mean_over_seeds():
    runs = [run(rate, accuracy) for rate, accuracy in ((0.2, 0.7), (0.1, 0.5), (0.1, 0.6), (0.2, 0.5), (0.4, 0.58))]
    grid = grids(runs)["a"]
    assert list(grid.means.items()) == [(0.1, pytest.approx(0.55)), (0.2, pytest.approx(0.6)), (0.4, 0.58)]
    assert (grid.best, grid.at_edge) == (0.2, False)
    assert grids(runs[:-1])["a"].at_edge  # nothing above 0.2 was tried


def test_rate_with_failed_seed_is_not_chosen():
    grid = grids([run(0.1, 0.5), run(0.05, 0.4), run(0.2, 0.9), run(0.2, None), run(0.4, 0.1, diverged=True)])["a"]
    assert math.isnan(grid.means[0.2]) and math.isnan(grid.means[0.4])
    assert (grid.best, grid.at_edge) == (0.1, False)
    nothing = grids([run(0.1, None)])["a"]
    assert nothing.best is None and nothing.at_edge
