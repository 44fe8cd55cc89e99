"""Paired differences between two configurations whose runs share their seeds."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddl.display.table import is_number
from ddl.errors import InputError

MOST_PAIRS = 1000  # limit of the search for the number of pairs needed


def half_width(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval, t(0.975, n − 1) × s / √n; NaN for fewer than two values."""
    from scipy.stats import t

    n = len(values)
    return float(t.ppf(0.975, n - 1)) * statistics.stdev(values) / math.sqrt(n) if n > 1 else math.nan


@dataclass(frozen=True)
class Paired:
    """Differences of pairs, with their mean and its 95 % confidence interval (Student's t).

    A single pair has no interval; its bounds are NaN.
    """

    differences: tuple[float, ...]

    def __post_init__(self):
        if not self.differences:
            raise InputError("at least one pair is needed")
        if not all(map(math.isfinite, self.differences)):
            raise InputError(f"differences must be finite numbers, got {self.differences}")

    @property
    def n(self) -> int:
        return len(self.differences)

    @cached_property
    def mean(self) -> float:
        """The mean difference, second − first."""
        return statistics.fmean(self.differences)

    @cached_property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return half_width(self.differences)

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    @property
    def needed(self) -> float:
        """The fewest pairs for which the interval excludes 0, given this mean and standard deviation.

        Infinite if the mean is 0 or more than `MOST_PAIRS` pairs would be needed; NaN for a single pair.
        """
        from scipy.stats import t

        if self.n < 2:
            return math.nan
        widths = t.ppf(0.975, range(1, MOST_PAIRS)) * statistics.stdev(self.differences)
        enough = (n for n, width in enumerate(widths, 2) if width < abs(self.mean) * math.sqrt(n))
        return next(enough, math.inf)

    @property
    def p(self) -> float:
        """Two-sided p of Student's t test that the mean is 0: 0 if all differences are equal, NaN for one pair."""
        from scipy.stats import t

        if self.n < 2:
            return math.nan
        error = statistics.stdev(self.differences) / math.sqrt(self.n)
        return float(2 * t.sf(abs(self.mean) / error, self.n - 1)) if error else float(not self.mean)

    def verdict(self, margin: float) -> str:
        """Return what the interval shows, if higher values are better.

        "within the margin" if it lies within ±`margin` (a smaller difference may exist); "better" or "worse" if it lies
        on one side of zero and reaches beyond the margin; otherwise, and for a single pair, "not decided".
        """
        if not margin >= 0:
            raise InputError(f"margin must be at least 0, got {margin:g}")
        if -margin <= self.low and self.high <= margin:
            return "within the margin"
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not decided"


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, in the given order (Holm 1979, section 3)."""
    found, least = [0.0] * len(p), 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = found[index] = max(least, min(1.0, (len(p) - place) * p[index]))
    return found


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired:
    """Return the differences second − first over the seeds that two configurations share.

    Raises InputError if they share no seed or a value is not finite.
    """
    seeds = [seed for seed in first if seed in second]
    if not seeds:
        raise InputError(f"the configurations have no seed in common: {sorted(first)} and {sorted(second)}")
    return Paired(tuple(second[seed] - first[seed] for seed in seeds))


def by_seed(runs: Iterable[Any], figure: str | Callable[[dict], float | None]) -> dict[int, float]:
    """Return a number from the result of each run of a configuration, by seed; runs with the same seed are averaged.

    `figure` is a key of the result or a function of it. Runs without that number or without a seed are skipped.
    """
    results = [run.result for run in runs if run.result is not None]
    value = figure if callable(figure) else lambda result: result.get(figure)
    return means((result.get("seed"), value(result)) for result in results)


def means(figures: Iterable[tuple[int | None, float | None]]) -> dict[int, float]:
    """Return the mean of each seed's numbers; pairs without a seed or a finite number are skipped."""
    found: dict[int, list[float]] = {}
    for seed, figure in figures:
        if seed is not None and is_number(figure) and math.isfinite(figure):
            found.setdefault(seed, []).append(figure)
    return {seed: statistics.fmean(values) for seed, values in found.items()}
