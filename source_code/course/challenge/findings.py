"""What the challenge's recorded runs show: their private accuracy, the best of several, and what each idea brings."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from course.shared.recorded import Recorded
from ddl.display.table import Table
from ddl.errors import InputError
from ddl.pairs import by_seed, holm, paired

WITHOUT = "without "  # and the trick: the name of an arm


def judged(runs: Iterable[Any]) -> list[Recorded]:
    """Return recorded runs of the challenge by arm, with the private accuracy as the held-out one.

    Runs that settings were chosen by are left out.
    """
    return [
        Recorded(
            run.result
            | {"name": run.result["arm"], "test_accuracy": run.result["private_accuracy"], "held_out": "test"}
        )
        for run in runs
        if run.result.get("role") != "tuning"
    ]


def best_of(values: Sequence[float], k: int) -> float:
    """Return the mean of the largest of `k` values that are drawn at random, none twice.

    The i-th smallest of n is the largest in C(i − 1, k − 1) of the C(n, k) draws.

    Raises InputError unless 1 ≤ k ≤ n.
    """
    n = len(values)
    if not 1 <= k <= n:
        raise InputError(f"k={k}: between 1 and all {n} of the values can be drawn")
    total = sum(math.comb(i, k - 1) * value for i, value in enumerate(sorted(values)))
    return total / math.comb(n, k)


def ablations(runs: Iterable[Any], whole: str) -> Table:
    """Tabulate what each trick of a submission brings: the arms "without X" against the arm `whole`.

    Only arms with the steps and precision of `whole` are compared. ``difference_points`` is private accuracy minus
    the whole's, paired by seed, the largest loss first; ``p`` is corrected for their number
    (`holm`); ``needed`` is `Paired.needed`.

    Raises InputError if there is no arm `whole`, or none without a trick to compare with it.
    """
    found = judged(runs)
    sizes = {_size(run) for run in found if run.name == whole}
    compared = [run for run in found if _size(run) in sizes]
    arms = {name: [run for run in compared if run.name == name] for name in dict.fromkeys(run.name for run in compared)}
    accuracies = {arm: by_seed(some, lambda result: 100 * result["test_accuracy"]) for arm, some in arms.items()}
    tricks = [arm.removeprefix(WITHOUT) for arm in arms if arm.startswith(WITHOUT)]
    if not tricks:
        named = ", ".join(dict.fromkeys(run.name for run in found)) or "none"
        raise InputError(f"the arm {whole!r} is compared with those “{WITHOUT}…” of its size; there are: {named}")
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
        f"Private accuracy minus that with everything ({everything:.1f} %), paired by seed, with its 95 % interval. "
        "Pairs to see it: from so many on, an even chance that the interval leaves out 0, if mean and spread are "
        "these."
    )
    return Table.of(sorted(rows, key=lambda row: row["difference_points"]), caption)


def _size(run):
    return run.result["steps"], run.result.get("precision")  # `prepare` counts as samples, and as no step
