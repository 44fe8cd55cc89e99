"""What the challenge's recorded runs show: their private accuracy, the best of several, and what each idea brings."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from ddl.analysis.paired import by_seed, paired
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.records.reference import Recorded

__all__ = ["ablations", "best_of", "judged"]


def judged(runs: Iterable[Any]) -> list[Recorded]:
    """Return recorded runs of the challenge by arm, with the private accuracy as the held-out one."""
    return [
        Recorded(
            run.result
            | {"name": run.result["arm"], "test_accuracy": run.result["private_accuracy"], "held_out": "test"}
        )
        for run in runs
    ]


def best_of(values: Sequence[float], k: int) -> float:
    """Return the mean of the largest of `k` values that are drawn at random, none twice.

    The i-th smallest of n is the largest in C(i − 1, k − 1) of the C(n, k) draws.

    Raises
    ------
    InputError
        Unless 1 ≤ k ≤ n.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise InputError(f"k={k}: between 1 and all {n} of the values can be drawn")
    total = sum(math.comb(i, k - 1) * value for i, value in enumerate(sorted(values)))
    return total / math.comb(n, k)


def ablations(runs: Iterable[Any], whole: str, seconds: float | None = None) -> Table:
    """Tabulate what each arm, the submission `whole` without one idea, loses: its private accuracy minus the whole's.

    Paired by seed, in points, the largest loss first. ``needed`` is `Paired.needed`, and ``minutes`` are those of so
    many pairs of runs that take `seconds` each.

    Raises
    ------
    InputError
        If there is no arm `whole`, or none beside it.
    """
    arms: dict[str, list[Any]] = {}
    for run in judged(runs):
        arms.setdefault(run.name, []).append(run)
    if whole not in arms or len(arms) < 2:
        raise InputError(f"the arm {whole!r} and others are compared; there are: {', '.join(arms) or 'none'}")
    accuracies = {arm: by_seed(found, lambda result: 100 * result["test_accuracy"]) for arm, found in arms.items()}
    rows = []
    for arm, found in accuracies.items():
        if arm == whole:
            continue
        pair = paired(accuracies[whole], found)
        rows.append(
            {
                "arm": arm,
                "accuracy": statistics.fmean(found.values()),
                "difference_points": pair.mean,
                "low_points": pair.low,
                "high_points": pair.high,
                "pairs": pair.n,
                "needed": pair.needed,
                "minutes": math.nan if seconds is None else 2 * pair.needed * seconds / 60,
            }
        )
    labels = {
        "arm": ("left out", "s"),
        "accuracy": ("private accuracy, %", ".2f"),
        "difference_points": ("difference, points", "+.2f"),
        "low_points": ("from", "+.2f"),
        "high_points": ("to", "+.2f"),
        "pairs": ("pairs", "d"),
        "needed": ("pairs to see it", ".0f"),
    }
    if seconds is not None:
        labels["minutes"] = ("minutes here", ",.0f")
    caption = (
        f"Private accuracy minus that of {whole} with everything ({statistics.fmean(accuracies[whole].values()):.2f} "
        "%), paired by seed, with its 95 % interval. Pairs to see it: from so many on, an even chance that the "
        "interval leaves out 0, if mean and spread are these."
    )
    return Table.of(sorted(rows, key=lambda row: row["difference_points"]), labels, caption)
