"""A launch of a reader's code on real ranks by `course.sharding.harness`, and comparisons with what ranks report.

A check compares with the right array and with one for each common mistake, so that its sentence names the mistake. It
raises AssertionError.
"""

from dataclasses import dataclass

import numpy as np

from course.grader.launches import Rank, launched, require


@dataclass(frozen=True)
class Trial:
    """A launch: the arrays that ranks were given, and the arrays that they reported."""

    file: str
    kind: str
    given: dict[str, np.ndarray]
    ranks: list[Rank]

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def where(self) -> str:
        return f"{self.file} on {self.size} ranks"

    def read(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return all ranks' reports of that name, float64 ``[ranks, *shape]``."""
        found = [rank.arrays.get(name, np.zeros(0)) for rank in self.ranks]
        for rank, array in enumerate(found):
            require(
                array.shape == shape, f"{self.where}: rank {rank}'s {name} has the shape {array.shape}, not {shape}"
            )
        return np.array(found, float)


def tried(file: str, ranks: int, kind: str, given: dict[str, np.ndarray]) -> Trial:
    """Run a file's answer of that kind. Raises AssertionError if the file is missing, fails or times out."""
    files = {"given.npz": {"kind": np.array(kind), **given}}
    return Trial(file, kind, given, launched(file, ranks, files, program="course.sharding.harness"))


def compare(found, right: np.ndarray, mistakes: dict[str, np.ndarray], sentence: str) -> None:
    """Raise AssertionError unless `found` is close to `right`; the first mistake like it ends the sentence."""

    def like(array):
        return np.shape(found) == array.shape and np.allclose(found, array, rtol=1e-3, atol=1e-4)

    why = next((f": {mistake}" for mistake, array in mistakes.items() if like(array)), "")
    require(like(right), sentence + why)
