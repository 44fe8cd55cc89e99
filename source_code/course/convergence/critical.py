"""The critical batch size: steps to a target against batch size, with a fitted curve.

The curve: McCandlish, Kaplan, Amodei et al. 2018, "An Empirical Model of Large-Batch Training", section 2.3. The
regions: Shallue et al. 2019, "Measuring the Effects of Data Parallelism on Neural Network Training", section 4.1.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from course.convergence.curve import REPETITIONS, Fit, fit, solve, widening
from course.convergence.tuning import Grid, configuration_of
from ddl.display.style import data_of
from ddl.display.table import Table, is_number
from ddl.errors import InputError

PERFECT = 1.10  # twice the batch takes at most this times half the steps
MAXIMAL = 0.95  # twice the batch takes at least this share of the steps


@dataclass(frozen=True)
class Reached:
    """The point at which a run reached its target, interpolated between evaluations."""

    steps: float
    samples: float


def reached(run: Any, target: float) -> Reached | None:
    """Return when held-out accuracy reached `target`, a share; None if no evaluation was at or above it.

    Raises InputError if the run stopped at a lower target.
    """
    rows = (run.result or {}).get("history") or run.history.to_dict("records")  # the result's are faster to get
    if found := crossing(rows, target):
        return found
    if run.result is not None and run.result.get("stopped_by") == "target":
        raise InputError(f"{run.name!r} stopped at its own target, below {target:g}: ask for that or a lower one")
    return None


def crossing(rows: Sequence[Mapping], target: float) -> Reached | None:
    """Return where evaluations, with ``step``, ``samples`` and ``test_accuracy``, crossed `target`, or None.

    If the first evaluation is above it, return that one.
    """
    before = None
    for row in rows:
        if not is_number(row.get("test_accuracy")):
            continue
        if row["test_accuracy"] >= target:
            last = before or row
            rise = row["test_accuracy"] - last["test_accuracy"]
            part = (target - last["test_accuracy"]) / rise if rise else 1
            return Reached(*(last[unit] + part * (row[unit] - last[unit]) for unit in ("step", "samples")))
        before = row
    return None


# ---------------------------------------------------------------- runs


@dataclass(frozen=True)
class Point:
    """The judged runs at one batch size: their learning rate, and where each seed reached the target."""

    batch: int
    rate: float
    seeds: Mapping[int, Reached]
    missed: int = 0  # number of runs that did not reach it
    grid: Grid | None = None  # steps by rate, from the tuning runs

    @property
    def steps(self) -> float:
        """The geometric mean of the seeds' steps; NaN if any missed the target, because it would be biased."""
        known = [run.steps for run in self.seeds.values()]
        return math.nan if self.missed or not known else statistics.geometric_mean(known)

    @property
    def at_edge(self) -> bool:
        """Whether the rate is the lowest or highest of those tried."""
        return self.grid is not None and self.rate in (min(self.grid.figures), max(self.grid.figures))


@dataclass(frozen=True)
class Critical:
    """Steps to a target against batch size, of one configuration."""

    configuration: str
    target: float
    points: tuple[Point, ...]
    data: str = ""

    @cached_property
    def fit(self) -> Fit:
        """The curve through all batch sizes at which every seed reached the target."""
        return fit(*self._runs)

    @property
    def has_fit(self) -> bool:
        """Whether there are enough complete batch sizes for a fit."""
        return len(self.whole) > 1

    @cached_property
    def lack_of_fit(self) -> float:
        """p of an F test of the curve's deviations against those of seeds, in log S; NaN with too few of either."""
        from scipy.stats import f

        seeds = {point.batch: np.log([run.steps for run in point.seeds.values()]) for point in self.whole}
        spread = sum(((steps - steps.mean()) ** 2).sum() for steps in seeds.values())
        off = sum(len(steps) * (steps.mean() - np.log(self.fit.steps(b))) ** 2 for b, steps in seeds.items())
        between, within = len(seeds) - 2, sum(map(len, seeds.values())) - len(seeds)
        return float(f.sf(off / between / (spread / within), between, within)) if between > 0 < spread else math.nan

    @cached_property
    def drawn(self) -> np.ndarray:
        """Bootstrap B_crit by resampling seeds, the same ones at all batches: shape [repetitions].

        Deviations are widened by √(n / (n − 1)) for n seeds, and by Student's t over the normal quantile. Curves of the
        same seeds use the same draws, so their ratios are valid. Raises InputError if the seeds differ between batches.
        """
        seeds = sorted({seed for point in self.whole for seed in point.seeds})
        if len(seeds) < 2 or any(sorted(point.seeds) != seeds for point in self.whole):
            raise InputError(f"{self.configuration}: resampling needs the same two or more seeds at all batch sizes")
        logs = np.log([[point.seeds[seed].steps for point in self.whole] for seed in seeds])  # [seeds, batches]
        draws = np.random.default_rng(0).integers(len(seeds), size=(REPETITIONS, len(seeds)))
        deviations = widening(len(seeds), len(seeds) - 1) * (logs[draws].mean(axis=1) - logs.mean(axis=0))
        batch = np.array([point.batch for point in self.whole], float)
        return solve(batch, logs.mean(axis=0) + deviations)[0]

    @cached_property
    def exponent(self) -> tuple[float, float]:
        """The best exponent a of S = S_min (1 + (B_crit/B)^a), and its B_crit; the curve above has a = 1."""
        from scipy.optimize import least_squares

        batch, steps = np.log(self._runs)
        begin = math.log(self.fit.steps_min), math.log(self.fit.critical), 1.0
        off = least_squares(lambda at: at[0] + np.logaddexp(0, at[2] * (at[1] - batch)) - steps, begin)
        return float(off.x[2]), math.exp(off.x[1])

    @cached_property
    def doublings(self) -> dict[int, float]:
        """The factor by which doubling the batch reduces the steps, for each batch whose double was run."""
        pairs = pairwise(self.whole)
        return {small.batch: small.steps / large.steps for small, large in pairs if large.batch == 2 * small.batch}

    @property
    def perfect_until(self) -> int | None:
        """The largest batch up to which each doubling halves the steps within 10 %, or None."""
        perfect = list(takewhile(lambda batch: self.doublings[batch] >= 2 / PERFECT, self.doublings))
        return 2 * perfect[-1] if perfect else None

    @property
    def maximal_from(self) -> int | None:
        """The smallest batch from which each doubling saves less than 5 % of the steps, or None."""
        maximal = list(takewhile(lambda batch: self.doublings[batch] < 1 / MAXIMAL, reversed(self.doublings)))
        return maximal[-1] if maximal else None

    def region(self, batch: int) -> str:
        """Return a batch's region as in Shallue et al. 2019, section 4.1; limits belong to the outer regions."""
        if self.perfect_until is not None and batch <= self.perfect_until:
            return "perfect scaling"
        if self.maximal_from is not None and batch >= self.maximal_from:
            return "maximal data parallelism"
        return "diminishing returns"

    def table(self) -> Table:
        """Tabulate the points, with a row per batch size."""
        rows = [
            {
                "batch": (point.batch, "batch", ",d"),
                "rate": (point.rate, "learning rate", ".3g"),
                "edge": point.at_edge,
                "steps": (point.steps, "steps", ",.0f"),
                "factor": (self.doublings.get(point.batch / 2, math.nan), "times fewer than at half", ".2f"),
                "least": (min((run.steps for run in point.seeds.values()), default=math.nan), "lowest", ",.0f"),
                "most": (max((run.steps for run in point.seeds.values()), default=math.nan), "highest", ",.0f"),
                "curve": (float(self.fit.steps(point.batch)) if self.has_fit else math.nan, "by the curve", ",.0f"),
                "samples": (point.steps * point.batch, "samples", ",.0f"),
                "region": (self.region(point.batch) if self._doubled(point) else "", "region", "s"),
                "seeds": (len(point.seeds), "seeds", "d"),
                "note": ("; ".join(_notes(point)), "note", "s"),
            }
            for point in self.points
        ]
        curve = f"Critical batch {self.fit}, 95 % interval by bootstrap; " if self.has_fit else ""
        if self.has_fit and not math.isnan(self.lack_of_fit):
            curve += f"lack of fit, p = {self.lack_of_fit:.2g}; "
        caption = (
            f"{self.configuration}: steps to a held-out accuracy of {100 * self.target:g} %, on {self.data}; "
            "the geometric mean "
            f"of the seeds. {curve}perfect scaling: each doubling of the batch divides the steps by {2 / PERFECT:.2f} "
            "or more, a limit that may be missed by little; maximal data parallelism: each saves less than 5 %."
        )
        return Table.of(rows, caption)

    @property
    def _runs(self):
        """Batch sizes and steps of the runs, shape [2, runs], at complete batch sizes."""
        return np.array([(point.batch, run.steps) for point in self.whole for run in point.seeds.values()], float).T

    def _doubled(self, point):
        return point in self.whole and not self.doublings.keys().isdisjoint((point.batch, point.batch / 2))

    @cached_property
    def whole(self) -> list[Point]:
        """The batch sizes at which every seed reached the target."""
        return [point for point in self.points if not math.isnan(point.steps)]


def _notes(point):
    if point.missed:
        yield f"{point.missed} of {point.missed + len(point.seeds)} missed the target"
    if point.at_edge:
        yield "rate at its grid's edge"
    if point.grid is not None and point.grid.best is None:
        yield "no rate of the grid reached the target in time"
    elif point.grid is not None:
        one, best = (point.grid.figures.get(rate, ()) for rate in (point.rate, point.grid.best))
        if len(best) >= len(one) and statistics.fmean(best) < statistics.fmean(one or (math.inf,)):
            yield "another rate was faster in the grid"


def critical_batch(runs: Iterable[Any], target: float | None = None, configuration: str | None = None) -> Critical:
    """Return the critical-batch curve of one configuration: where its runs reached a held-out accuracy.

    Runs whose result has the ``role`` ``"tuning"`` chose each batch's learning rate; the others are evaluated. If a
    batch has several rates, the best of its grid counts, or without a grid the fastest. `target` defaults to the runs'
    target.

    Raises InputError for an unknown or ambiguous `configuration`, without evaluated runs, or without a common target.
    """
    runs = [run for run in runs if run.result is not None]
    configurations = list(dict.fromkeys(map(configuration_of, runs)))
    if configuration is not None and configuration not in configurations:
        raise InputError(f"unknown configuration {configuration!r}; available: {', '.join(configurations) or 'none'}")
    if configuration is None and len(configurations) > 1 and any("configuration" in run.result for run in runs):
        raise InputError(
            f"these are runs of several configurations: choose one with configuration=…, of {', '.join(configurations)}"
        )
    runs = [run for run in runs if configuration is None or configuration_of(run) == configuration]
    judged = [run for run in runs if run.result.get("role") != "tuning"]
    if not judged:
        raise InputError("no runs to evaluate: each batch size needs runs besides those for tuning")
    if target is None:
        targets = {(run.result.get("config") or {}).get("target_accuracy") for run in judged}
        if len(targets) != 1 or None in targets:
            raise InputError("these runs have no target in common: give one, such as target=0.6")
        (target,) = targets
    points = [_point(batch, runs, target) for batch in sorted({run.result["global_batch"] for run in judged})]
    return Critical(
        configuration or (configurations[0] if len(configurations) == 1 else "your runs"),
        target,
        tuple(points),
        data_of(judged),
    )


def _point(batch, runs, target):
    tuned, judged = {}, {}  # where each seed reached the target, by learning rate
    runs = [run for run in runs if run.result["global_batch"] == batch]
    others = {_others(run) for run in runs if run.result.get("role") != "tuning"}
    for run in runs:
        result, tuning = run.result, run.result.get("role") == "tuning"
        if not tuning or _others(run) in others:
            (tuned if tuning else judged).setdefault(result["learning_rate"], {})[result["seed"]] = reached(run, target)
    grid = _grid(batch, tuned) if tuned else None
    best = (grid or _grid(batch, judged)).best
    rate = best if best in judged else next(iter(judged))
    seeds = {seed: found for seed, found in judged[rate].items() if found is not None}
    return Point(batch, rate, seeds, len(judged[rate]) - len(seeds), grid)


def _others(run):
    """Return other settings that may have been tuned with the learning rate."""
    config = run.result.get("config") or {}
    return config.get("momentum"), config.get("warmup_epochs")


def _grid(batch, rates):
    steps = {rate: tuple(run.steps if run else math.nan for run in seeds.values()) for rate, seeds in rates.items()}
    return Grid(str(batch), steps, more_is_better=False)


# ---------------------------------------------------------------- noise scale


@dataclass(frozen=True)
class Noise:
    """Estimates of the gradient noise scale, in samples; infinite if |G|² was indistinguishable from zero."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        return float(np.quantile(self.values, 0.5, method="inverted_cdf"))

    @property
    def spread(self) -> tuple[float, float]:
        """The range of the middle 80 %."""
        return tuple(map(float, np.quantile(self.values, (0.1, 0.9), method="inverted_cdf")))


def noise(runs: Iterable[Any]) -> Noise:
    """Return the runs' estimates of the noise scale at their evaluations (``noise_scale=True``).

    Raises InputError if there are none.
    """
    rows = [row for run in runs if "noise_scale" in run.history for row in run.history.to_dict("records")]
    scales = [row["noise_scale"] for row in rows if is_number(row.get("variance"))]
    if not scales:
        raise InputError("no run here recorded a noise scale: launch one with noise_scale=True")
    return Noise(tuple(float(scale) if is_number(scale) and scale > 0 else math.inf for scale in scales))
