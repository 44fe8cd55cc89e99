"""The order of samples and its division among ranks.

Step *t* of epoch *e* has the same global batch for any number of ranks, and each rank takes a slice of it. So two ranks
with batch B together see what one rank with batch 2B sees, and slices never overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from course.data.dataset import DataError


@dataclass(frozen=True)
class Order:
    """The global batches of every epoch, from a seed. Raises DataError if an epoch is shorter than one batch."""

    samples: int  # in the training split
    global_batch: int  # samples per step, over all ranks
    seed: int = 0  # the same order for the same seed, on any number of ranks

    def __post_init__(self):
        if self.global_batch < 1:
            raise DataError(f"A global batch of {self.global_batch} samples is not possible: it must be at least 1.")
        if self.samples < self.global_batch:
            raise DataError(
                f"{self.samples} samples do not fill one global batch of {self.global_batch}: "
                f"use a batch of at most {self.samples}, or more samples."
            )

    @property
    def steps(self) -> int:
        """The number of whole batches in an epoch."""
        return self.samples // self.global_batch

    def batches(self, first: int, last: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (step, global batch) for steps `first` to `last` - 1; a batch is int32 ``[global_batch]``."""
        for step in range(first, last):
            epoch, row = divmod(step, self.steps)
            if row == 0 or step == first:
                batches = self.epoch(epoch)
            yield step, batches[row]

    def epoch(self, epoch: int) -> np.ndarray:
        """Return the batches of an epoch, counted from 0: int32 ``[steps, global_batch]``.

        They are positions in the training split, without repetition.
        """
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
        used = shuffled[: self.steps * self.global_batch]
        return used.astype(np.int32).reshape(self.steps, self.global_batch)


def shard(batch: np.ndarray, rank: int, size: int) -> np.ndarray:
    """Return one rank's contiguous shard of one or more global batches, as a view.

    The shape ``[..., global_batch]`` becomes ``[..., global_batch / size]``. Raises DataError if the batch cannot be
    split evenly.
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
