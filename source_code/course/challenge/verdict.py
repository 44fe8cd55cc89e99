"""Whether the runs of a file show that it reaches the target: a one-sided t-test, and the ratio of times."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from course.challenge.rules import BASELINE_SAMPLES, LEAST_RUNS, LOOK_SHARE, TARGET, level
from ddl.errors import InputError
from ddl.interval import half_width
from ddl.words import plural


def p_value(accuracies: Sequence[float], target: float) -> float:
    """Return the p of Student's one-sided t-test that the mean of these runs is above `target`.

    Fewer than two runs show nothing: p is 1. Without any spread it is 0 above the target, and 1 at it or below.
    """
    from scipy.stats import ttest_1samp

    if len(accuracies) < 2:
        return 1.0
    if len(set(accuracies)) == 1:
        return 0.0 if accuracies[0] > target else 1.0
    return float(ttest_1samp(accuracies, target, alternative="greater").pvalue)


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return an interval of the median that assumes no distribution, and how sure it is: (low, high, confidence).

    It lies between the k-th smallest and the k-th largest value, with the largest k that is 95 % sure; between the
    extremes where none is: five values are 94 % sure, 1 − 2 · 2⁻⁵.
    """
    n, ordered = len(values), sorted(values)
    if not n:
        return math.nan, math.nan, 0.0

    def sure(k):
        return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

    k = max((k for k in range(1, (n + 1) // 2 + 1) if sure(k) >= 0.95), default=1)
    return ordered[k - 1], ordered[n - k], sure(k)


@dataclass(frozen=True)
class Score:
    """What all runs of one file's bytes show."""

    name: str  # the file's
    accuracies: tuple[float, ...]  # on the private pictures, of every run; a run that crashed has reached chance
    samples: int | None = None  # that the file trains on, as the harness counts; None where no run came to its end
    looks: int = 1  # how many times runs of this program, or in a class of this student's files, were asked for
    ratios: tuple[float, ...] = ()  # of seconds to those of the baseline beside it, where both came to their end
    crashes: tuple[str, ...] = ()  # why runs crashed: one sentence each
    left: int = 0  # runs that are still to come
    target: float = TARGET
    data: str = "cifar10"  # the pictures; of "synthetic" there is no board
    trial: bool = False  # whether sizes were cut to try things out: that counts for nothing

    def __post_init__(self):
        if not all(0 <= accuracy <= 1 for accuracy in self.accuracies):  # NaN is not either
            raise InputError(f"an accuracy lies between 0 and 1: {self.accuracies}")
        if not all(math.isfinite(ratio) and ratio > 0 for ratio in self.ratios):
            raise InputError(f"a ratio of times is a finite number above 0: {self.ratios}")

    @property
    def n(self) -> int:
        """The number of runs."""
        return len(self.accuracies)

    @property
    def mean(self) -> float:
        """The mean private accuracy; NaN without a run."""
        return statistics.fmean(self.accuracies) if self.accuracies else math.nan

    @property
    def half_width(self) -> float:
        """Half of the mean's 95 % interval by Student's t; NaN with fewer than two runs."""
        return half_width(self.accuracies)

    @property
    def p(self) -> float:
        """The `p_value` against the target; it has to stay below `needed`."""
        return p_value(self.accuracies, self.target)

    @property
    def needed(self) -> float:
        return level(self.looks)

    @property
    def counts(self) -> bool:
        """Whether the target is reached: all runs are done, there are enough of them, and p is small enough."""
        whole = not self.left and not self.trial and self.samples is not None
        return whole and self.n >= LEAST_RUNS and self.p < self.needed

    @property
    def ratio(self) -> float:
        """The median of the ratios of times; NaN without a pair."""
        return statistics.median(self.ratios) if self.ratios else math.nan

    @property
    def look(self) -> str:
        """Why a person should read the file; empty if there is no reason."""
        if self.counts and self.samples is not None and self.samples < LOOK_SHARE * BASELINE_SAMPLES:
            return f"it reached the target with {self.samples / BASELINE_SAMPLES:.0%} of the baseline's samples"
        return ""

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        interval = "" if math.isnan(self.half_width) else f" ± {self.half_width:.2%}"
        found = f"mean {self.mean:.2%}{interval} of {plural(self.n, 'run')}" if self.n else "no run yet"
        if self.left:
            return f"not done: {self.left} of {plural(self.n + self.left, 'run')} to come; so far {found}"
        if self.counts:
            return f"counts: {found} reaches {self.target:.1%} (p = {self.p:.2g} < {self.needed:g})"
        if self.trial:
            return f"a trial, which does not count: {found}"
        if self.n < LEAST_RUNS:
            return f"does not count: {found}, and at least {LEAST_RUNS} are needed"
        if self.samples is None:
            return f"does not count: none of {plural(self.n, 'run')} came to its end"
        needed = f"p = {self.p:.2g}, {self.needed:g} needed"
        return f"does not count: {found} is not shown to reach {self.target:.1%} ({needed})"

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        if self.samples is not None:
            lines.append(f"  samples {self.samples:,} ({self.samples / BASELINE_SAMPLES:.0%} of the baseline's)")
        if self.ratios:
            low, high, sure = median_interval(self.ratios)
            interval = f", {low:.2f} to {high:.2f} ({sure:.0%} sure)" if len(self.ratios) > 1 else ""
            lines.append(f"  time    {self.ratio:.2f} of the baseline's{interval}, {plural(len(self.ratios), 'pair')}")
        lines += [f"  a run crashed, and counts as chance: {why}" for why in self.crashes]
        if self.data != "cifar10":
            lines.append(f"  on {self.data} images, which have no board: `ddl data fetch cifar10`")
        return "\n".join(lines)
