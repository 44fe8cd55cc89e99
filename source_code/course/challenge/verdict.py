"""The verdict on a file: a one-sided t-test of its accuracy, and its time relative to the baseline's."""

import math
import statistics
from dataclasses import dataclass

from course.challenge.report import Report
from course.challenge.rules import ALPHA, RUNS, TARGETS
from ddl.paired_stats import half_width
from ddl.text import plural


@dataclass(frozen=True)
class Score:
    """The runs of one file, and the verdict on them."""

    name: str
    accuracies: tuple[float, ...]  # on the private images; a run that failed counts as chance
    samples: int | None = None  # images that the file trains on; None if no run finished
    ratios: tuple[float, ...] = ()  # processor time over the baseline's
    failure: str = ""  # of a run, which ends the score
    left: int = 0  # runs still to come
    data: str = "cifar10"
    trial: bool = False  # with smaller sizes, which does not count
    report: Report | None = None

    @property
    def n(self) -> int:
        return len(self.accuracies)

    @property
    def target(self) -> float:
        return TARGETS[self.data]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies) if self.accuracies else math.nan

    @property
    def half_width(self) -> float:
        return half_width(self.accuracies)

    @property
    def p(self) -> float:
        """The p of Student's one-sided t-test that the mean is above the target."""
        from scipy.stats import ttest_1samp

        if len(set(self.accuracies)) < 2:  # without any spread
            return float(not self.mean > self.target)
        return float(ttest_1samp(self.accuracies, self.target, alternative="greater").pvalue)

    @property
    def counts(self) -> bool:
        """Whether enough whole runs show that the target is reached."""
        return not (self.failure or self.left or self.trial) and self.n >= RUNS and self.p < ALPHA

    @property
    def ratio(self) -> float:
        """The median ratio of processor times; NaN without one."""
        return statistics.median(self.ratios) if self.ratios else math.nan

    @property
    def span(self) -> str:
        return f"{min(self.ratios):.2f} to {max(self.ratios):.2f}" if self.ratios else ""

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        interval = "" if math.isnan(self.half_width) else f" ± {self.half_width:.2%}"
        found = f"mean {self.mean:.2%}{interval} of {plural(self.n, 'run')}" if self.n else "no run yet"
        if self.failure:
            return f"does not count, as a run failed: {self.failure}"
        if self.left:
            return f"not done: {self.left} of {plural(self.n + self.left, 'run')} to come; so far {found}"
        if self.trial:
            return f"a trial, which does not count: {found}"
        if self.counts:
            return f"counts: {found} is above {self.target:.1%} (p = {self.p:.2g})"
        return f"does not count: {found} is not shown to be above {self.target:.1%} (p = {self.p:.2g}, {ALPHA} needed)"

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        if self.ratios:
            time = f"  time    {self.ratio:.2f} of the baseline's processor time (median; {self.span})"
            lines += [time, f"  samples {self.samples:,}, {self.data} images"]
        if self.report:
            lines += [f"  file    {self.report}", *(f"  needs review: {flag}" for flag in self.report.flags)]
        return "\n".join(lines)
