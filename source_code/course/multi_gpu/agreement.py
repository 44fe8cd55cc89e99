"""Comparison of strategies' weights after the same number of updates."""

import numpy as np

from ddl.display.table import Table
from ddl.errors import InputError
from ddl.records.folder import RunFolder


def agreement(runs, step: int | None = None) -> Table:
    """Tabulate the weights of several strategies after the same number of updates, with a row per run.

    Strategies that compute the same thing differ only by rounding: by about 1e-7 of the largest weight after one
    update. Further updates amplify it, so a mistake is visible after a few updates but not after hundreds.

    `runs` are finished runs of the scripts in ``strategies``, compared with the first of them, after `step` updates,
    one of `course.training.strategy.KEPT`; by default the last. Raises InputError if they can't be compared.
    """
    runs, rows = list(runs), []
    apart = differences(runs, [kept_weights(run) for run in runs], step)
    for run, (updates, absolute, relative) in zip(runs, apart, strict=True):
        result = run.result
        rows.append(
            {
                "strategy": (run.name, "s"),
                "processes × threads": (f"{result['ranks']} × {result['threads_per_rank']}", "s"),
                "replicas": (result["replicas"], "d"),
                "updates": (updates, "d"),
                "largest difference of a weight": (absolute, ".1e"),
                "÷ the largest weight": (relative, ".1e"),
                "held-out accuracy, %": (100 * result["test_accuracy"], ".1f"),
                "images/s": (result["images_per_s"], ",.0f"),
            }
        )
    when = "at the end" if step is None else f"after {step} updates"
    caption = f"Weights {when}, against those of “{runs[0].name}”. Accuracy and images/s are of the whole run."
    return Table.of([{name: (value, name, form) for name, (value, form) in row.items()} for row in rows], caption)


def differences(runs, kept, step: int | None = None) -> list[tuple[int, float, float]]:
    """Return the distance between each run's `kept_weights` and the first run's.

    For each run: the number of updates, the largest difference of any weight, and that over the largest absolute weight
    of the first run. Raises InputError without weights for that step, or with another network than the first's.
    """
    apart = []
    for run, weights in zip(runs, kept, strict=True):
        at = max(weights) if step is None else step
        names = f"run {run.id} ({run.name}) and run {runs[0].id} ({runs[0].name})"
        if at not in weights or at not in kept[0]:
            common = ", ".join(map(str, sorted(set(weights) & set(kept[0])))) or "none"
            raise InputError(f"{names} did not both keep their weights after {at} updates; both kept: {common}")
        ours, first = weights[at], kept[0][at]
        if [weight.shape for weight in ours] != [weight.shape for weight in first]:
            raise InputError(f"{names} trained different networks: their weights can't be compared")
        gap = max(float(np.abs(a - b).max()) for a, b in zip(ours, first, strict=True))
        apart.append((at, gap, gap / max(float(np.abs(each).max()) for each in first)))
    return apart


def kept_weights(run) -> dict[int, list[np.ndarray]]:
    """Return the weights that a run of a script in ``strategies`` kept, float32, by the number of updates."""
    path = RunFolder(run.folder).weights
    if run.result is None or not path.exists():
        raise InputError(
            f"run {run.id} ({run.name}, {run.state}) has no saved weights: use a finished run of strategies/*.py"
        )
    kept = {}
    with np.load(path) as file:
        for name in file.files:  # in the order in which they were saved
            kept.setdefault(int(name.split(".")[0]), []).append(file[name])
    return kept
