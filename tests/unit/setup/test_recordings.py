"""The experiments of lesson 4, as they are planned: with trainings that are formulas."""

import math

import pytest

pytest.importorskip("horovod.tensorflow")

from convergence import Search
from recordings import compact


def test_grid_grows_until_best_rate_is_inside():
    for best in (0.003, 0.05, 0.2, 5.0):
        grid = Search(0.05, lambda rate, best=best: abs(math.log2(rate / best)), 30)
        found = grid.best()
        assert abs(math.log2(found / best)) <= 0.5
        assert min(grid.tried) < found < max(grid.tried)
        assert len(grid.tried) <= 4 + abs(math.log2(best / 0.05))
    for works in (lambda rate: rate < 0.002, lambda rate: rate > 1):
        assert works(Search(0.05, lambda rate, works=works: 1.0 if works(rate) else math.inf, 20).best())


def test_record_is_rounded_and_parallel_runs_have_no_times():
    times = {"images_per_s": 1200.0, "seconds": 3.0}
    kept = compact({"a": 0.123456789, "b": 1234567, "start_s": {}, **times, "history": [{"x": 1e-9 / 3, **times}]})
    nothing = {"images_per_s": None, "seconds": None}
    assert kept == {"a": 0.123457, "b": 1234567, **nothing, "history": [{"x": 3.33333e-10, **nothing}]}
