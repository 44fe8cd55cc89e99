"""Differences between two arms that were run with the same seeds."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddl.display.table import is_number
from ddl.errors import InputError
from ddl.interval import half_width

MOST_PAIRS = 1000  # that are looked through for how many are needed


@dataclass(frozen=True)
class Paired:
    """Differences of pairs, their mean, and its 95 % confidence interval by Student's t.

    A single pair has no interval: its bounds are NaN.
    """

    differences: tuple[float, ...]

    def __post_init__(self):
        if not self.differences:
            raise InputError("there is no pair to take a difference of")
        if not all(map(math.isfinite, self.differences)):
            raise InputError(f"a pair's difference is not a finite number: {self.differences}")

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
        """The fewest pairs with which such a mean and deviation give an interval without 0, at even chances.

        Infinite where the mean is 0, or more than `MOST_PAIRS` would be needed; NaN for a single pair.
        """
        from scipy.stats import t

        if self.n < 2:
            return math.nan
        widths = t.ppf(0.975, range(1, MOST_PAIRS)) * statistics.stdev(self.differences)
        enough = (n for n, width in enumerate(widths, 2) if width < abs(self.mean) * math.sqrt(n))
        return next(enough, math.inf)

    @property
    def p(self) -> float:
        """Two-sided p of Student's t test that the mean is 0; 0 where all differences are equal, NaN for one pair."""
        from scipy.stats import t

        if self.n < 2:
            return math.nan
        error = statistics.stdev(self.differences) / math.sqrt(self.n)
        return float(2 * t.sf(abs(self.mean) / error, self.n - 1)) if error else float(not self.mean)

    def verdict(self, margin: float) -> str:
        """Say what the interval decides, for figures of which more is better.

        "no difference" where it lies within ±`margin`; "better" or "worse" where it lies on one side of zero (and
        reaches beyond the margin); else, and with a single pair, "not decided".
        """
        if not margin >= 0:
            raise InputError(f"margin={margin:g}: a margin is zero or more")
        if -margin <= self.low and self.high <= margin:
            return "no difference"
        if self.low > 0:
            return "better"
        return "worse" if self.high < 0 else "not decided"


def holm(p: Sequence[float]) -> list[float]:
    """Correct p for the number of comparisons, in the order given (Holm 1979, section 3)."""
    found, least = [0.0] * len(p), 0.0
    for place, index in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = found[index] = max(least, min(1.0, (len(p) - place) * p[index]))
    return found


def paired(first: Mapping[int, float], second: Mapping[int, float]) -> Paired:
    """Pair two arms' figures by their common seeds, and return second − first.

    Raises InputError if the arms share no seed, or a figure is not finite.
    """
    seeds = [seed for seed in first if seed in second]
    if not seeds:
        raise InputError(f"the arms have no seed in common: {sorted(first)} and {sorted(second)}")
    return Paired(tuple(second[seed] - first[seed] for seed in seeds))


def by_seed(runs: Iterable[Any], figure: str | Callable[[dict], float | None]) -> dict[int, float]:
    """Return a figure of the results of one arm's runs, by seed; of runs with the same seed, the mean.

    `figure` is a key of results, or a function of a result. Runs without it, or without a seed, are left out.
    """
    results = [run.result for run in runs if run.result is not None]
    value = figure if callable(figure) else lambda result: result.get(figure)
    return means((result.get("seed"), value(result)) for result in results)


def means(figures: Iterable[tuple[int | None, float | None]]) -> dict[int, float]:
    """Return the mean figure of each seed, without those that have no seed or are no finite number."""
    found: dict[int, list[float]] = {}
    for seed, figure in figures:
        if seed is not None and is_number(figure) and math.isfinite(figure):
            found.setdefault(seed, []).append(figure)
    return {seed: statistics.fmean(values) for seed, values in found.items()}
