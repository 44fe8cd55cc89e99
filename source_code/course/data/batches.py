"""Which samples each rank reads, and when.

The order belongs to the whole world, not to a rank: step *t* of epoch *e* has one global batch
whatever the number of ranks, and each rank takes its slice of it. So two ranks with batch B see
what one rank with batch 2B sees, and slices cannot overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from course.data.dataset import DataError


@dataclass(frozen=True)
class Order:
    """The global batches of every epoch, from a seed; DataError when an epoch would not have a single whole batch."""

    samples: int  # in the training part
    global_batch: int  # samples of one step on all ranks together
    seed: int = 0  # the same order for the same seed, on any number of ranks

    def __post_init__(self):
        if self.global_batch < 1:
            raise DataError(f"A global batch of {self.global_batch} samples: it must be 1 or more.")
        if self.samples < self.global_batch:
            raise DataError(
                f"{self.samples} samples do not fill one global batch of {self.global_batch}: "
                f"use a batch of at most {self.samples}, or more samples."
            )

    @property
    def steps(self) -> int:
        """Whole batches in an epoch."""
        return self.samples // self.global_batch

    def batches(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each step from `first` up to `last`, counted from 0, and its global batch, int32 ``[global_batch]``."""
        for step in range(first, last):
            epoch, row = divmod(step, self.steps)
            if row == 0 or step == first:
                batches = self.epoch(epoch)
            yield step, batches[row]

    def epoch(self, epoch: int) -> np.ndarray:
        """Return the batches of an epoch, counted from 0: int32 ``[steps, global_batch]``.

        They are positions in the training part, no position twice.
        """
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
        used = shuffled[: self.steps * self.global_batch]
        return used.astype(np.int32).reshape(self.steps, self.global_batch)


def shard(batch: np.ndarray, rank: int, size: int) -> np.ndarray:
    """Return one rank's contiguous part of a global batch, or of many: a view.

    Of shape ``[..., global_batch]`` it leaves ``[..., global_batch / size]``; DataError when it cannot be split evenly.
    """
    if not 0 <= rank < size:
        raise DataError(f"Rank {rank} of {size} ranks: ranks are numbered 0 to {size - 1}.")
    global_batch = batch.shape[-1]
    if global_batch % size:
        nearest = max(size, round(global_batch / size) * size)
        raise DataError(
            f"A global batch of {global_batch} cannot be split evenly over {size} ranks: "
            f"the nearest that can is {nearest}."
        )
    each = global_batch // size
    return batch[..., rank * each : (rank + 1) * each]
