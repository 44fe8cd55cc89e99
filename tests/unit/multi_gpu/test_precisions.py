"""Pairs of runs in float32 and bfloat16, compared with numbers worked out by hand."""

from types import SimpleNamespace

import pytest

from course.multi_gpu import precisions


def run(precision, seed=0, accuracy=0.5, **facts):
    result = {"precision": precision, "seed": seed, "test_accuracy": accuracy, "steps": 4, "parameters": 100, **facts}
    return SimpleNamespace(name=precision, result=result)


def test_runs_are_paired_by_seed():
    figures = [(0.60, 0.61), (0.58, 0.58), (0.62, 0.64)]
    runs = [run("float32", seed, a) for seed, (a, _) in enumerate(figures)]
    runs += [run("bfloat16", seed, b) for seed, (_, b) in reversed(list(enumerate(figures)))]
    found = precisions.pairs(runs, "test_accuracy")
    assert found.float32 == (0.60, 0.58, 0.62) and found.bfloat16 == (0.61, 0.58, 0.64)
    assert found.difference.differences == pytest.approx((0.01, 0, 0.02))
    assert found.ratios == pytest.approx([0.61 / 0.60, 1, 0.64 / 0.62])
    with pytest.raises(ValueError, match="pair 0 has runs in float32"):
        precisions.pairs([run("float32")], "test_accuracy")
