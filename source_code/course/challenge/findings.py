"""Statistics of the challenge's recorded runs: the best of several, and the effect of each trick."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from course.shared.recorded import Recorded
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.paired_stats import by_seed, holm, paired

WITHOUT = "without "  # and the trick: the name of a configuration


def judged(runs: Iterable[Any]) -> list[Recorded]:
    """Return recorded runs by configuration, with private accuracy as the held-out one, without those for tuning."""
    return [
        Recorded(
            run.result
            | {"name": run.result["configuration"], "test_accuracy": run.result["private_accuracy"], "held_out": "test"}
        )
        for run in runs
        if run.result.get("role") != "tuning"
    ]


def best_of(values: Sequence[float], k: int) -> float:
    """Return the mean of the largest of `k` values that are drawn at random without replacement.

    The i-th smallest of n is the largest in C(i − 1, k − 1) of the C(n, k) draws.

    Raises InputError unless 1 ≤ k ≤ n.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise InputError(f"k={k}: between 1 and all {n} of the values can be drawn")
    total = sum(math.comb(i, k - 1) * value for i, value in enumerate(sorted(values)))
    return total / math.comb(n, k)


def ablations(runs: Iterable[Any], whole: str) -> Table:
    """Tabulate the effect of each trick of a submission: the configurations "without X" against `whole`.

    ``difference_points`` is private accuracy minus the whole's, paired by seed, the largest loss first; ``p`` is
    corrected for the number of tricks (`holm`); ``needed`` is `Paired.needed`.
    """
    found = judged(runs)
    configurations = {
        name: [run for run in found if run.name == name] for name in dict.fromkeys(run.name for run in found)
    }
    accuracies = {
        configuration: by_seed(some, lambda result: 100 * result["test_accuracy"])
        for configuration, some in configurations.items()
    }
    tricks = [
        configuration.removeprefix(WITHOUT) for configuration in configurations if configuration.startswith(WITHOUT)
    ]
    pairs = [paired(accuracies[whole], accuracies[WITHOUT + trick]) for trick in tricks]
    rows = [
        {
            "trick": (trick, "left out", "s"),
            "difference_points": (pair.mean, "difference, points", "+.2f"),
            "low_points": (pair.low, "from", "+.2f"),
            "high_points": (pair.high, "to", "+.2f"),
            "p": (p, "p, corrected", ".3f"),
            "pairs": (pair.n, "pairs", "d"),
            "needed": (pair.needed, "pairs to see it", ".0f"),
        }
        for trick, pair, p in zip(tricks, pairs, holm([pair.p for pair in pairs]), strict=True)
    ]
    everything = statistics.fmean(accuracies[whole].values())
    caption = (
        f"Private accuracy minus the whole file's ({everything:.1f} %), paired by seed, with its 95 % interval. Pairs "
        "to see it: with this many, the interval excludes 0 half of the time, if mean and spread are these."
    )
    return Table.of(sorted(rows, key=lambda row: row["difference_points"]), caption)
