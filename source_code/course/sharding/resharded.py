"""Checks for a reader's checkpoints: lesson 6c's functions ``save`` and ``load``.

Real ranks save two checkpoints. Then rank 0 loads them for each rank of worlds of other sizes, as they are and after
the newer one was damaged.
"""

import numpy as np

from course.grader.launches import require
from course.sharding.trial import Trial, compare, tried

STEPS = 9, 10  # as text, 10 comes before 9
SIZES = {"weights": 24, "moments": 5}  # 2, 3 and 4 ranks divide the first, and none of them the second
WORLDS = 1, 2, 3  # ranks that load
TEARS = "no manifest", "no shard", "half a shard"
NOTHING, RAISED = -1, -2  # in place of a step


def saved(file: str, ranks: int, seed: int) -> Trial:
    """Let ranks save two checkpoints, and load them in worlds of other sizes."""
    draw = np.random.default_rng([seed, ranks])
    given = {f"{step}.{name}": draw.normal(size=n).astype(np.float32) for step in STEPS for name, n in SIZES.items()}
    return tried(file, ranks, "checkpoint", given)


def same_arrays(t: Trial, ranks: int) -> None:
    """Compare what this many ranks load with what was saved."""
    where = f"{t.where}, loaded on {ranks}"
    step = _step(t, "whole", ranks)
    require(step == STEPS[1], f"{where}: load gave step {step}, and the newest is {STEPS[1]}: compare steps as numbers")
    for name in SIZES:
        whole = t.given[f"{step}.{name}"]
        right, before = _split(whole, ranks), _split(whole, t.size)
        padded = _split(before.ravel(), ranks)
        for rank in range(ranks):
            found = t.ranks[0].arrays.get(f"whole.{ranks}.{rank}.{name}")
            mistakes = {
                "cut off the padding before you split": padded[rank],
                "it is the shard of the rank with its number among those that saved": before[rank % t.size],
            }
            compare(found, right[rank], mistakes, f"{where}: rank {rank} does not get its shard of {name}")


def written_in_shards(t: Trial) -> None:
    """Look for a manifest that is written before the last shard, and for weights that are sent."""
    for rank, report in enumerate(t.ranks):
        require(
            not report.arrays["early"].any(),
            f"{t.where}: the manifest was there before rank {rank} had saved its shard: wait with `world.barrier()`",
        )
        require(
            report.arrays["sent"] <= 12 * (len(t.ranks) - 1),
            f"{t.where}: rank {rank} sent {int(report.arrays['sent'])} numbers while saving: each rank writes its own",
        )


def falls_back(t: Trial, how: str) -> None:
    """Look for a torn checkpoint that is used, or whose predecessor is not; `how` is one of `TEARS`."""
    manifest, shard = t.ranks[0].arrays["new"]
    require(manifest, f"{t.where}: there is no manifest {STEPS[1]}.json after step {STEPS[1]}")
    require(shard, f"{t.where}: the second checkpoint overwrites the first: put the step into the files' names")
    for ranks in WORLDS:
        step = _step(t, how, ranks)
        gave = {NOTHING: "load gave nothing", RAISED: "load raised an error"}.get(step, f"load gave step {step}")
        require(step == STEPS[0], f"{t.where}, then {how} of step {STEPS[1]}: {gave}, and step {STEPS[0]} is whole")


def _step(t, how, ranks):
    steps = {int(t.ranks[0].arrays[f"{how}.{ranks}.{rank}"]) for rank in range(ranks)}
    require(len(steps) == 1, f"{t.where}, loaded on {ranks}: ranks continue from different steps, {sorted(steps)}")
    return steps.pop()


def _split(values, ranks):
    return np.pad(values, (0, -len(values) % ranks)).reshape(ranks, -1)
