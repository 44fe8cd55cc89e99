"""Where algorithms overtake each other: crossings, and the model's."""

import itertools
import math
from types import SimpleNamespace

import numpy
import pytest

from course.shared import cost
from course.topology import race

SIZES = [4**power for power in range(5, 13)]
ALPHA, BETA, RANKS = 50e-6, 1e-9, 4
NAMES = ("ring", "recursive doubling", "halving and doubling")


def raced(spread=0.0, faster=None):
    """A run as the model says, with quartiles `spread` apart; `faster` algorithms take less than that."""
    seconds = {
        name: numpy.array([cost.ALGORITHMS[name](size, RANKS, ALPHA, BETA) for size in SIZES])
        / (faster or {}).get(name, 1)
        for name in NAMES
    }
    points = [
        {
            "algorithm": name,
            "size_bytes": size,
            "seconds": quartiles(seconds[name][at], spread),
            "ahead_of": {
                other: quartiles(seconds[other][at] / seconds[name][at], spread) for other in NAMES if other != name
            },
        }
        for name, (at, size) in itertools.product(NAMES, enumerate(SIZES))
    ]
    return SimpleNamespace(result={"ranks": RANKS, "transport": "loopback", "points": points})


def quartiles(value, spread):
    return {"median": value, "low": value / (1 + spread), "high": value * (1 + spread)}


def test_what_the_model_made_is_found_where_the_model_says():
    run = raced()
    fit = race.model(run)
    assert (fit.alpha_s, fit.beta_s_per_byte) == pytest.approx((ALPHA, BETA))
    for one, other, exact in (
        ("recursive doubling", "ring", 8 * ALPHA / BETA),  # 4 messages fewer, and half of the data more
        ("recursive doubling", "halving and doubling", 4 * ALPHA / BETA),
    ):
        assert race.model_crossover(one, other, RANKS, cost.Link(ALPHA, BETA)) == pytest.approx(exact)
        found = race.crossover(run, one, other)
        assert found.size_bytes == found.low == found.high == pytest.approx(exact, rel=0.2)
    rows = race.crossovers(run).to_dict("records")
    assert [row["model_bytes"] for row in rows] == pytest.approx([4 * ALPHA / BETA, 8 * ALPHA / BETA, math.inf])


def test_the_ring_is_never_faster_than_halving_and_doubling_on_a_power_of_two():
    for ranks in (2, 4, 8, 64):
        assert race.model_crossover("halving and doubling", "ring", ranks, cost.Link(ALPHA, BETA)) == math.inf
        assert race.model_crossover("tree", "recursive doubling", ranks, cost.Link(ALPHA, BETA)) == 0
    assert race.model_crossover("halving and doubling", "ring", 6, cost.Link(ALPHA, BETA)) < math.inf


def test_crossover_band_is_from_quartiles():
    found = race.crossover(raced(spread=0.1), "recursive doubling", "ring")
    assert found.low < found.size_bytes < found.high < math.inf
    assert race.crossover(raced(spread=0.5), "recursive doubling", "ring").high == math.inf
    assert race.crossover(raced(faster={"ring": 9}), "recursive doubling", "ring").size_bytes == 0
    assert race.crossover(raced(faster={"recursive doubling": 9}), "recursive doubling", "ring").low == math.inf
    # Noise that crosses twice counts at the larger size.
    run = raced()
    first = next(point for point in run.result["points"] if point["algorithm"] == "recursive doubling")
    before = race.crossover(run, "recursive doubling", "ring")
    first["ahead_of"]["ring"] = quartiles(0.9, 0)
    assert race.crossover(run, "recursive doubling", "ring") == before
    with pytest.raises(ValueError, match="did not race"):
        race.crossover(raced(), "tree", "ring")
