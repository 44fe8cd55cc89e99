"""The first difference between two runs, or two ranks of a run, found in the checksums that their scripts recorded."""

import math
from dataclasses import dataclass
from pathlib import Path

from ddl.errors import InputError
from ddl.follow.crash_report import name_ranks
from ddl.records.jsonfiles import read_json_lines
from ddl.text import plural

# A rank's arrays by step and name: checksum and L2 norm, which is None if it is not finite.
Steps = dict[int, dict[str, tuple[str, float | None]]]


@dataclass(frozen=True)
class Divergence:
    """A comparison of checksums; false if nothing differs.

    `step`, `rank` and `array` say where the first difference is, `norms` are the L2 norms of that array here and there:
    NaN if one is not finite, None if that array is missing.
    """

    compared: str  # what was compared, in words
    step: int | None = None
    rank: int | None = None
    array: str = ""
    norms: tuple[float | None, float | None] = (None, None)
    other: str = ""  # whose array is the second, in words

    def __bool__(self) -> bool:
        return self.step is not None

    def __str__(self) -> str:
        if not self:
            return f"no difference in {self.compared}"
        here, there = ("none" if norm is None else f"{norm:.6g}".replace("nan", "not finite") for norm in self.norms)
        return (
            f"step {self.step}, rank {self.rank}, {self.array}: the first difference from {self.other} "
            f"(L2 norms {here} and {there}); compared: {self.compared}"
        )

    __repr__ = __str__


def divergence(folder: Path, other: Path | None = None, tolerance: float = 0.0) -> Divergence:
    """Return the first difference between a run's ranks and the first or, with another run's folder, its equal ranks.

    Steps, ranks and arrays are compared in this order, as far as both sides recorded them. With a `tolerance`, arrays
    are equal if the relative difference of their L2 norms is at most that; otherwise if their checksums are. InputError
    if there is nothing to compare.
    """
    ours = _ranks(folder)
    theirs = _ranks(other) if other else dict.fromkeys(ours, next(iter(ours.values())))
    pairs = {rank: (ours[rank], theirs[rank]) for rank in ours if rank in theirs}
    if not other and len(pairs) == 1:
        raise InputError(f"{folder.name} has checksums of one rank only: name a second run to compare it with")
    steps = [
        step for step in next(iter(ours.values())) if all(step in rank for pair in pairs.values() for rank in pair)
    ]
    if not pairs or not steps:
        missing = "step" if pairs else "rank"
        raise InputError(f"the checksums of {folder.name} and {(other or folder).name} have no {missing} in common")
    compared = f"{plural(len(steps), 'step')} of {name_ranks(pairs)}"
    whose = f"run {other.name}" if other else f"rank {min(ours)}"
    for step in steps:
        for rank, (here, there) in pairs.items():
            for name in dict.fromkeys((*here[step], *there[step])):
                one, two = here[step].get(name), there[step].get(name)
                if one is None or two is None or not _same(one, two, tolerance):
                    return Divergence(compared, step, rank, name, (_norm(one), _norm(two)), whose)
    return Divergence(compared)


def _norm(found: tuple[str, float | None] | None) -> float | None:
    return math.nan if found and found[1] is None else found and found[1]


def _same(one: tuple[str, float | None], two: tuple[str, float | None], tolerance: float) -> bool:
    if one[0] == two[0]:
        return True
    return bool(tolerance) and None not in (one[1], two[1]) and math.isclose(one[1], two[1], rel_tol=tolerance)  # type: ignore[arg-type]


def _ranks(folder: Path) -> dict[int, Steps]:
    """Return the records of each rank that has some; a step that was repeated after a restart counts once."""
    found: dict[int, Steps] = {}
    for path in folder.glob("checksums-*.jsonl"):
        steps = found.setdefault(int(path.stem.partition("-")[2]), {})
        for line in read_json_lines(path, {"step": int, "arrays": dict}):
            steps.setdefault(line["step"], {}).update({name: tuple(pair) for name, pair in line["arrays"].items()})
    if not found:
        raise InputError(
            f"{folder.name} has recorded no checksums: call Recorder().checksums(step, arrays) on each rank"
        )
    return dict(sorted(found.items()))
