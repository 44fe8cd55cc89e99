"""Which samples each rank reads, and when.

The order belongs to the world, not to a rank: a step has one global batch whatever the number of ranks, and each rank
takes its slice of it. Two ranks with batch B see what one rank with batch 2B sees, and no two slices overlap.
"""

from dataclasses import dataclass

import numpy as np

from ddl.data.dataset import DataError

__all__ = ["Order", "shard"]


@dataclass(frozen=True)
class Order:
    """The global batches of every epoch, from a seed; DataError where not even one batch is whole."""

    samples: int
    global_batch: int
    seed: int = 0

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

    @property
    def left_over(self) -> int:
        """Samples that an epoch leaves out, others in each epoch."""
        return self.samples % self.global_batch

    def epoch(self, epoch: int) -> np.ndarray:
        """Return the batches of an epoch, counted from 0.

        Positions in the training part, none of them twice: int32, shape ``[steps, global_batch]``.
        """
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
        used = shuffled[: self.steps * self.global_batch]
        return used.astype(np.int32).reshape(self.steps, self.global_batch)


def shard(batch: np.ndarray, rank: int, size: int) -> np.ndarray:
    """Return a rank's contiguous part of a global batch, or of many, as a view.

    Shape ``[..., global_batch]`` becomes ``[..., global_batch / size]``; DataError where it does not divide evenly.
    """
    if not 0 <= rank < size:
        raise DataError(f"Rank {rank} of {size} ranks: ranks are numbered 0 to {size - 1}.")
    global_batch = batch.shape[-1]
    if global_batch % size:
        nearest = max(size, round(global_batch / size) * size)
        raise DataError(
            f"A global batch of {global_batch} can not be split evenly over {size} ranks: "
            f"the nearest that can is {nearest}."
        )
    each = global_batch // size
    return batch[..., rank * each : (rank + 1) * each]
