"""Curve of steps to a target against batch size, fitted to runs, with intervals.

McCandlish, Kaplan, Amodei et al. 2018, "An Empirical Model of Large-Batch Training", section 2.3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ddl.errors import InputError

BEYOND = 64  # the search for a critical batch extends this factor below and above the batches
EDGE = 1.001  # results this close to a bound count as at the bound
REPETITIONS = 1000  # of the bootstrap
GRID = 512  # grid values of B_crit, interpolated by a parabola


@dataclass(frozen=True)
class Fit:
    """The curve S = S_min (1 + B_crit/B) through steps S at batches B, with 95 % intervals.

    ``critical`` is B_crit in samples and ``steps_min`` S_min. Bounds of the interval of B_crit are 0 or infinite if the
    batches do not determine them.
    """

    batches: tuple[int, ...]
    critical: float
    steps_min: float
    draws: np.ndarray = field(repr=False, compare=False)  # shape [repetitions, 2]: B_crit and S_min of each

    @property
    def samples_min(self) -> float:
        """E_min = B_crit S_min: the fewest samples, reached with small batches."""
        return self.critical * self.steps_min

    @cached_property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of B_crit, in samples; NaN with fewer than three batches."""
        if not len(self.draws):
            return math.nan, math.nan
        low, high = (float(np.percentile(self.draws[:, 0], at, method="nearest")) for at in (2.5, 97.5))
        least, most = _bounds(self.batches)
        return (0.0 if low <= least * EDGE else low), (math.inf if high >= most / EDGE else high)

    def steps(self, batch):
        """Return the steps at some batch sizes, by the curve."""
        return self.steps_min * (1 + self.critical / np.asarray(batch, float))

    def band(self, batch) -> tuple[np.ndarray, np.ndarray]:
        """Return the 95 % interval of the curve's steps at some batch sizes; NaN with fewer than three batches."""
        batch = np.asarray(batch, float)
        critical, steps_min = self.draws.T if len(self.draws) else np.full((2, 1), np.nan)
        curves = steps_min[:, None] * (1 + critical[:, None] / batch.ravel())
        low, high = np.percentile(curves, (2.5, 97.5), axis=0)
        return low.reshape(batch.shape), high.reshape(batch.shape)

    def __str__(self):
        low, high = self.interval
        between = f"{low:,.0f} to {high:,.0f}" if math.isfinite(high) else f"{low:,.0f} or more"
        return f"{self.critical:,.0f} ({'no interval' if math.isnan(low) else between})"


def fit(batches: Sequence[float], steps: Sequence[float]) -> Fit:
    """Fit S = S_min (1 + B_crit/B) to the steps of runs, with one entry per run, by least squares in log S.

    This is ``(S/S_min − 1) (E/E_min − 1) = 1`` (McCandlish et al. 2018, equation 2.11), solved for S with ``E = B S``
    and ``B_crit = E_min / S_min`` (equation 2.12).

    Runs at one batch size (seeds) are averaged geometrically. The intervals come from a residual bootstrap: many times,
    each mean is replaced by the curve plus a random batch's deviation with random sign, and the curve is refitted.
    Deviations are widened by √(k / (k − 2)) for k batches and two parameters, and by Student's t over the normal
    quantile.

    Raises InputError with fewer than two batch sizes, or if steps are not positive.
    """
    sizes, logs = np.asarray(batches, float), np.asarray(steps, float)
    if len(sizes) != len(logs) or not (np.all(sizes > 0) and np.all(logs > 0) and np.all(np.isfinite(logs))):
        raise InputError("a curve of steps against batch sizes needs both of each run, as positive numbers")
    batch = np.unique(sizes)
    if len(batch) < 2:
        raise InputError("a curve of steps against batch sizes needs two batch sizes or more")
    means = np.array([np.log(logs[sizes == size]).mean() for size in batch])
    critical, steps_min = (float(value[0]) for value in solve(batch, means[None]))
    curve = np.log(steps_min * (1 + critical / batch))
    draws = np.empty((0, 2))
    if len(batch) > 2:
        widened = widening(len(batch), len(batch) - 2) * (means - curve)
        deviations = np.random.default_rng(0).choice(
            np.concatenate([widened, -widened]), size=(REPETITIONS, len(batch))
        )
        draws = np.stack(solve(batch, curve + deviations), axis=1)
    return Fit(tuple(batch.astype(int).tolist()), critical, steps_min, draws)


def widening(count: int, freedom: int) -> float:
    """Return the factor that widens `count` deviations with `freedom` degrees of freedom before resampling.

    √(count / freedom), and Student's t over the normal quantile.
    """
    from scipy.stats import norm, t

    return math.sqrt(count / freedom) * t.ppf(0.975, freedom) / norm.ppf(0.975)


def _bounds(batches):
    return min(batches) / BEYOND, max(batches) * BEYOND


def solve(batch, logs):
    """Return B_crit and S_min of each row of `logs`, the logarithms of the steps at each batch."""
    # For a given B_crit, the best log S_min is the mean of log S − log(1 + B_crit/B), so only B_crit is searched, on a
    # grid with parabolic interpolation.
    grid = np.linspace(*np.log(_bounds(batch)), GRID)
    shape = np.log1p(np.exp(grid)[:, None] / batch)
    centered = shape - shape.mean(1, keepdims=True)
    error = (centered**2).sum(1) - 2 * (logs - logs.mean(1, keepdims=True)) @ centered.T
    least = error.argmin(1)
    rows, inner = np.arange(len(logs)), np.clip(least, 1, GRID - 2)
    before, at, after = (error[rows, inner + shift] for shift in (-1, 0, 1))
    curvature = before - 2 * at + after
    shift = np.where(
        (least == inner) & (curvature > 0), (before - after) / 2 / np.where(curvature > 0, curvature, 1), 0
    )
    critical = np.exp(grid[least] + shift * (grid[1] - grid[0]))
    return critical, np.exp((logs - np.log1p(critical[:, None] / batch)).mean(1))
