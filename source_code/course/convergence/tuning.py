"""Grids of learning rates: the best of each arm, and whether its grid reached far enough."""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ddl.display.table import is_number
from ddl.errors import InputError


@dataclass(frozen=True)
class Grid:
    """What each learning rate gave one arm: its seeds' figures by rate, NaN of a run that diverged or missed.

    A rate that any seed failed with is worse than all that none did.
    """

    arm: str
    figures: Mapping[float, tuple[float, ...]]
    more_is_better: bool = True

    @cached_property
    def means(self) -> dict[float, float]:
        """The mean over seeds, by rate in ascending order; NaN where any seed failed."""
        return {rate: statistics.fmean(self.figures[rate]) for rate in sorted(self.figures)}

    @cached_property
    def best(self) -> float | None:
        """The rate with the best mean, of equal ones the lowest; None where all failed."""
        known = {rate: mean for rate, mean in self.means.items() if not math.isnan(mean)}
        choose = max if self.more_is_better else min
        return choose(known, key=known.__getitem__, default=None)

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the lowest or highest tried, so that one beyond may be better."""
        return self.best in (None, min(self.figures), max(self.figures))


def grids(runs: Iterable[Any], figure: str = "test_accuracy") -> dict[str, Grid]:
    """Return the grid of each arm: a figure of the results by learning rate and seed.

    Raises InputError if there is no run with a result.
    """
    arms: dict[str, dict[float, list[float]]] = {}
    for run in runs:
        if run.result is None:
            continue
        value = run.result.get(figure)
        failed = run.result.get("diverged") or not is_number(value)
        rates = arms.setdefault(arm_of(run), {})
        rates.setdefault(run.result["learning_rate"], []).append(math.nan if failed else value)
    if not arms:
        raise InputError("no run here has a result: there is no grid to choose from")
    return {arm: Grid(arm, {rate: tuple(values) for rate, values in rates.items()}) for arm, rates in arms.items()}


def arm_of(run: Any) -> str:
    """Return a run's arm: what its result says, else the name of the run that landscape.py measured, or its own."""
    result = run.result or {}
    return result.get("arm") or (result.get("run") or {}).get("name") or run.name
