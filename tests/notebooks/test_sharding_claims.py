"""Lesson 6's claims about recorded runs and published splits: predicates, as in test_claims."""

import numpy as np
import pytest
from scipy.optimize import minimize

from course import memory, recorded, splits
from helpers import ROOT, claims_of

LESSONS = ("6.Sharding", "6b.Sharding-in-Depth", "6c.Sharding-in-Practice")


class Records:
    """The recorded runs and the published splits."""

    def off(self):
        """Return by which part the measured peaks of tensors differ from the arithmetic at most."""
        return max(abs(sum(memory.of_run(run).values()) / run.result["peak_bytes"] - 1) for run in self.memory())

    def reserve(self, least_width=0):
        """Return the least and the largest ratio of a process's memory to its tensors."""
        ratios = [run.result["resident_bytes"] / run.result["peak_bytes"] for run in self.memory(least_width)]
        return min(ratios), max(ratios)

    def memory(self, least_width=0):
        return [run for run in recorded("sharding-memory") if run.result["config"]["width"] >= least_width]

    def seconds(self, model, gpus, split=None, fitted=None):
        """Return the time of a step, with the best split unless one is given, and speeds that were `fitted`."""
        cluster = splits.Cluster(gpus, **(fitted or {}))
        return sum(splits.seconds(model, cluster, split or splits.best(model, cluster)).values())

    def left_out(self):
        """Return the relative error of each model's speed, with the two speeds fitted to the other nine."""
        return [
            abs(self._off(row, fit([other for other in splits.MEGATRON if other is not row])))
            for row in splits.MEGATRON
        ]

    def _off(self, row, fitted):
        model, gpus, split, published = row
        return model.operations / gpus / self.seconds(model, gpus, split, fitted) / 1e12 / published - 1

    def slower(self):
        """Return by which part each published split is slower than the best one."""
        return [self.seconds(*how, split) / self.seconds(*how) - 1 for *how, split, _ in splits.MEGATRON]


def fit(rows):
    """Return the speed and the narrow width of `splits.Cluster` that suit these models best."""
    plain = Records()

    def off(values):
        fitted = {"speed": abs(values[0]) * 1e12, "narrow": abs(values[1])}
        return sum(np.log1p(plain._off(row, fitted)) ** 2 for row in rows)

    speed, narrow = minimize(off, (200, 700), method="Nelder-Mead").x
    return {"speed": abs(speed) * 1e12, "narrow": abs(narrow)}


def left_out_of_the_mean():
    """Return the relative error of each model's speed, if the mean of the others is the guess."""
    speeds = np.array([row[-1] for row in splits.MEGATRON], float)
    return [abs(np.delete(speeds, place).mean() / speed - 1) for place, speed in enumerate(speeds)]


CLAIMS = {
    "In all these runs the peak of a rank's tensors is within 4 % of the arithmetic.": lambda r: r.off() < 0.04,
    "A process needs more than its tensors: 4 to 25 %, and at most 13 % from a width of 640 on.": lambda r: (
        [round(100 * (ratio - 1)) for ratio in r.reserve()] == [4, 25] and r.reserve(640)[1] < 1.135
    ),
    "By this arithmetic the authors' splits are at most 13 % slower than the best of all, and for six of the ten models "
    "less than 1 %.": lambda r: max(r.slower()) < 0.13 and sum(part < 0.01 for part in r.slower()) == 6,
    "Fitted to nine of the ten models, the arithmetic predicts the speed of the tenth within 7 %, and within 4 % on "
    "average; the mean of the nine is off by 7 % on average.": lambda r: (
        max(r.left_out()) < 0.07 and np.mean(r.left_out()) < 0.04 and 0.06 < np.mean(left_out_of_the_mean()) < 0.08
    ),
}


def test_every_claim_of_the_lessons_is_checked():
    assert sorted(claims_of(*LESSONS)) == sorted(CLAIMS)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_holds(claim):
    assert CLAIMS[claim](Records())


def test_the_speeds_are_those_that_fit_all_models():
    cluster = splits.Cluster(1)
    assert fit(splits.MEGATRON) == pytest.approx({"speed": cluster.speed, "narrow": cluster.narrow}, rel=0.01)


def test_measured_md_has_the_records_figures():
    measured = (ROOT / "docs" / "measured.md").read_text()
    ratios = [sum(memory.of_run(run).values()) / run.result["peak_bytes"] for run in recorded("sharding-memory")]
    assert f"| {min(ratios):.2f} to {max(ratios):.2f} | 2026-11-25 |" in measured
    assert "| {:.2f} to {:.2f} | 2026-11-25 |".format(*Records().reserve()) in measured
