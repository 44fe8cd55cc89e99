"""Grids of learning rates, with each configuration's best."""

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
    """Results of one configuration's seeds by learning rate; NaN for runs that diverged or missed the target.

    A rate at which any seed failed is worse than all rates without failures.
    """

    configuration: str
    figures: Mapping[float, tuple[float, ...]]
    more_is_better: bool = True

    @cached_property
    def means(self) -> dict[float, float]:
        """The mean over seeds, by rate in ascending order; NaN if any seed failed."""
        return {rate: statistics.fmean(self.figures[rate]) for rate in sorted(self.figures)}

    @cached_property
    def best(self) -> float | None:
        """The rate with the best mean, the lowest if tied; None if all failed."""
        known = {rate: mean for rate, mean in self.means.items() if not math.isnan(mean)}
        choose = max if self.more_is_better else min
        return choose(known, key=known.__getitem__, default=None)

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is at the edge of the grid, so that one outside may be better."""
        return self.best in (None, min(self.figures), max(self.figures))


def grids(runs: Iterable[Any]) -> dict[str, Grid]:
    """Return the grid of each configuration: the test accuracy by learning rate and seed.

    Raises InputError if there is no run with a result.
    """
    configurations: dict[str, dict[float, list[float]]] = {}
    for run in runs:
        if run.result is None:
            continue
        value = run.result.get("test_accuracy")
        failed = run.result.get("diverged") or not is_number(value)
        rates = configurations.setdefault(configuration_of(run), {})
        rates.setdefault(run.result["learning_rate"], []).append(math.nan if failed else value)
    if not configurations:
        raise InputError("none of these runs has a result, so there is no grid")
    return {
        configuration: Grid(configuration, {rate: tuple(values) for rate, values in rates.items()})
        for configuration, rates in configurations.items()
    }


def configuration_of(run: Any) -> str:
    """Return a run's configuration: what its result says, else the measured run's name, else its own."""
    result = run.result or {}
    return result.get("configuration") or (result.get("run") or {}).get("name") or run.name
