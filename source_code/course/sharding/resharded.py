"""Checks for a reader's checkpoints: lesson 6c's functions ``save`` and ``load``, on real ranks.

`saved` launches ranks that write checkpoints of two steps, `resumed` launches others that read the files, after some
were damaged. Checks raise AssertionError with one sentence.
"""

from dataclasses import dataclass, replace

import numpy as np

from course.grader.launches import Rank, launched, require

STEPS = 9, 10  # as text, 10 comes before 9
SIZES = {"weights": 24, "moments": 5}  # 2, 3 and 4 ranks divide the first, and none of them the second


@dataclass(frozen=True)
class Saved:
    """Files after each of two checkpoints, as arrays of bytes by name, and what the ranks that wrote them reported."""

    file: str
    arrays: dict[int, dict[str, np.ndarray]]  # by step and name
    files: tuple[dict[str, np.ndarray], ...]
    ranks: list[Rank]

    @property
    def where(self):
        return f"{self.file} on {len(self.ranks)} ranks"

    @property
    def newest(self) -> set[str]:
        """Names of the files that the second checkpoint added."""
        return self.files[1].keys() - self.files[0].keys()

    def torn(self, how: str) -> "Saved":
        """Return a copy whose newest checkpoint lacks its manifest or a part, or has half of a part."""
        manifest, files = f"{STEPS[1]}.json", dict(self.files[1])
        part = max((name for name in self.newest if name != manifest), default=None)
        require(manifest in files, f"{self.where}: there is no manifest {manifest} after step {STEPS[1]}")
        require(part, f"{self.where}: the second checkpoint overwrites the first: put the step into the files' names")
        files.pop(manifest if how == "no manifest" else part)
        if how == "half a part":
            files[part] = self.files[1][part][: len(self.files[1][part]) // 2]
        return replace(self, files=(self.files[0], files))


def saved(file: str, ranks: int, seed: int) -> Saved:
    """Let ranks save two checkpoints. Raises AssertionError if the file is missing, fails or times out."""
    draw = np.random.default_rng([seed, ranks])
    arrays = {step: {name: draw.normal(size=n).astype(np.float32) for name, n in SIZES.items()} for step in STEPS}
    given = {f"{step}.{name}": array for step in STEPS for name, array in arrays[step].items()}
    found = _launched(file, ranks, given)
    files = [{}, {}]
    for name, array in found[0].arrays.items():
        kind, number, path = [*name.split("|"), "", ""][:3]
        if kind == "file":
            files[int(number)][path] = array
    return Saved(file, arrays, tuple(files), found)


def resumed(t: Saved, ranks: int) -> tuple[int, list[dict[str, np.ndarray]]]:
    """Let that many ranks load the newest whole checkpoint; return its step and each rank's parts."""
    found = _launched(t.file, ranks, {f"file|{name}": array for name, array in t.files[1].items()})
    steps = {int(rank.arrays["step"]) for rank in found}
    require(len(steps) == 1, f"{t.file} on {ranks} ranks: ranks continue from different steps, {sorted(steps)}")
    return steps.pop(), [{name: rank.arrays.get(f"part|{name}") for name in SIZES} for rank in found]


def _launched(file, ranks, given):
    given = {"kind": np.array("checkpoint"), **given}
    return launched(file, ranks, {"given.npz": given}, program="course.sharding.harness")


def same_arrays(t: Saved, ranks: int) -> None:
    """Compare what this many ranks load with what was saved."""
    where = f"{t.where}, loaded on {ranks}"
    step, parts = resumed(t, ranks)
    require(step == STEPS[1], f"{where}: load gave step {step}, and the newest is {STEPS[1]}: compare steps as numbers")
    for name, whole in t.arrays[step].items():
        length = -(-len(whole) // ranks)
        padded = np.pad(whole, (0, length * ranks - len(whole)))
        before = np.pad(whole, (0, -len(whole) % len(t.ranks)))  # with the padding of those who saved
        for rank, part in enumerate(each[name] for each in parts):
            wanted = padded[rank * length : (rank + 1) * length]
            if part is not None and part.shape == wanted.shape and np.allclose(part, wanted):
                continue
            mine = before.reshape(len(t.ranks), -1)[rank % len(t.ranks)]
            why = ""
            if part is not None and len(t.ranks) != ranks and part.shape == mine.shape and np.allclose(part, mine):
                why = ": it is the part of the rank with its number among those that saved"
            elif part is not None and part.size > length:
                why = f": it has {part.size} numbers, not {length}; cut off the padding before you split"
            require(False, f"{where}: rank {rank} does not get its part of {name}{why}")


def written_in_parts(t: Saved) -> None:
    """Look for a manifest that is written before the last part, and for weights that are sent."""
    for rank, report in enumerate(t.ranks):
        require(
            not report.arrays["early"].any(),
            f"{t.where}: the manifest was there before rank {rank} had saved its part: wait with `world.barrier()`",
        )
        require(
            report.arrays["sent"] <= 12 * (len(t.ranks) - 1),
            f"{t.where}: rank {rank} sent {int(report.arrays['sent'])} numbers while saving: each rank writes its own",
        )


def falls_back(t: Saved, how: str, ranks: int = 2) -> None:
    """Look for a torn checkpoint that is used, or whose predecessor is not."""
    try:
        step, _ = resumed(t.torn(how), ranks)
    except AssertionError as error:
        raise AssertionError(f"{t.where}, then {how} of step {STEPS[1]}: {error}") from None
    require(
        step == STEPS[0],
        f"{t.where}, then {how} of step {STEPS[1]}: load gave {f'step {step}' if step >= 0 else 'nothing'}, and step "
        f"{STEPS[0]} is whole",
    )
