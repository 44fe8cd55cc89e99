"""What lesson 4 says that its recorded runs show: each sentence is a predicate on the records.

A sentence stands in a cell with the tag `claims`, and here, word for word. A new recording that makes it false fails
here, and so does a sentence that nobody checks.
"""

import re
import statistics
from functools import cache

import jupytext
import pytest

from ddl import recorded
from ddl.analysis.paired import Paired, paired
from helpers import ROOT

MARGIN = 1.0  # points, within which there is said to be no difference
FAR = 10.0  # points, from which on a difference is called far
SOURCE = ROOT / "grading" / "source" / "4.Convergence" / "4.Convergence.py"


class Records:
    """The recorded runs, or a doctored copy: `doctor` maps the runs of a file to others."""

    def __init__(self, doctor=lambda name, results: results):
        self._read = cache(lambda name: doctor(name, [run.result for run in recorded(name)]))

    def arm(self, name, figure="test_accuracy", file="convergence-cifar10") -> dict[int, float]:
        """Return a figure of an arm by seed, in percent where it is a share."""
        scale = 100 if figure.endswith("accuracy") else 1
        found = {result["seed"]: scale * result[figure] for result in self._read(file) if result["name"] == name}
        assert len(found) >= 5, (name, figure, file)
        return found

    def gain(self, one, other, figure="test_accuracy", file="convergence-cifar10") -> Paired:
        """Return other − one, paired by seed."""
        return paired(self.arm(one, figure, file), self.arm(other, figure, file))

    def rate(self, name, file="convergence-cifar10") -> float:
        """Return the learning rate of an arm."""
        (rate,) = {result["learning_rate"] for result in self._read(file) if result["name"] == name}
        return rate


def above(pair):
    return pair.low > 0


def below(pair):
    return pair.high < 0


def level(pair):
    return pair.verdict(MARGIN) == "no difference"


LARGE_ARMS = (
    "large batch",
    "large batch + BN",
    "large batch + BN, same rate",
    "+ linear scaling",
    "+ warm-up",
    "+ linear scaling, warm-up",
    "+ square-root scaling, warm-up",
    "LARS",
    "LARS, trust 0.001",
    "LAMB",
)


def batch_norm_helps_the_large_batch_more(records):
    gains = []
    for batch in ("small batch", "large batch"):
        bare, normed = records.arm(batch), records.arm(f"{batch} + BN")
        gains.append({seed: normed[seed] - bare[seed] for seed in bare})
    return above(paired(*gains))


BATCH_1024 = "large batch + BN"
LINEAR, SQUARE_ROOT = "+ linear scaling, warm-up", "+ square-root scaling, warm-up"

CLAIMS = {
    # Equal epochs and equal steps
    "At equal epochs the large batch is behind the small one, each at its own best rate.": lambda r: below(
        r.gain("small batch + BN", BATCH_1024)
    ),
    "It is behind on the pictures that it trained on, too.": lambda r: below(
        r.gain("small batch + BN", BATCH_1024, "clean_accuracy")
    ),
    "At equal steps it is far ahead.": lambda r: r.gain("small batch + BN, few steps", BATCH_1024).low > FAR,
    # Batch norm
    "Batch norm brings the large batch more than it brings the small one.": batch_norm_helps_the_large_batch_more,
    # Rules and warm-up
    "The linear rule without a warm-up is far worse than no scaling at all.": lambda r: (
        r.gain(f"{BATCH_1024}, same rate", "+ linear scaling").high < -FAR
    ),
    "With a warm-up it beats the best rate that has none.": lambda r: above(r.gain(BATCH_1024, LINEAR)),
    "After a warm-up there is no difference between the linear and the square-root rule.": lambda r: level(
        r.gain(LINEAR, SQUARE_ROOT)
    ),
    "Both fall short of the best rate, which lies between them.": lambda r: (
        below(r.gain("+ warm-up", LINEAR))
        and below(r.gain("+ warm-up", SQUARE_ROOT))
        and r.rate(SQUARE_ROOT) < r.rate("+ warm-up") < r.rate(LINEAR)
    ),
    # A step size for each layer
    "Between LARS and SGD with warm-up the records do not decide.": lambda r: (
        r.gain("+ warm-up", "LARS").verdict(MARGIN) == "not decided"
    ),
    "LAMB is behind SGD with warm-up.": lambda r: below(r.gain("+ warm-up", "LAMB")),
    "LARS at its paper's trust ratio is behind LARS at ours.": lambda r: below(r.gain("LARS", "LARS, trust 0.001")),
    "Nothing closes the gap to the small batch.": lambda r: all(
        below(r.gain("small batch + BN", arm)) for arm in LARGE_ARMS
    ),
}


def sentences():
    """Return the sentences of the cells that are tagged as claims."""
    notebook = jupytext.read(SOURCE, fmt="py:percent")
    cells = [cell.source for cell in notebook.cells if "claims" in cell.metadata.get("tags", [])]
    plain = [re.sub(r"\*\*|^- ", "", cell, flags=re.MULTILINE) for cell in cells]
    return [part for cell in plain for part in re.split(r"(?<=[.!?]) +(?=[A-Z])", " ".join(cell.split()))]


def test_the_lesson_claims_what_is_checked_and_nothing_else():
    assert sorted(sentences()) == sorted(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_holds_on_the_records(claim):
    assert CLAIMS[claim](Records())


def leveled(name, results):
    """Every arm as good as the others, seeds a little apart."""
    return [
        result | {figure: 0.7 + 0.01 * result["seed"] for figure in result if "accuracy" in figure}
        for result in results
    ]


def reversed_arms(name, results):
    """The best arm has the figures of the worst, and so on."""
    arms = sorted(
        {r["name"] for r in results},
        key=lambda arm: statistics.fmean(r["test_accuracy"] for r in results if r["name"] == arm),
    )
    other = dict(zip(arms, reversed(arms), strict=True))
    return [result | {"name": other[result["name"]]} for result in results]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_can_fail(claim):
    assert not all(CLAIMS[claim](Records(doctor)) for doctor in (leveled, reversed_arms))
