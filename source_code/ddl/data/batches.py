"""Which samples each rank reads, and when.

The order belongs to the whole world, not to a rank: step *t* of epoch *e* has
one global batch whatever the number of ranks, and each rank takes its slice of
it. Two ranks with batch B therefore see what one rank with batch 2B sees, and
two slices can not overlap.
"""

from dataclasses import dataclass

import numpy as np

from ddl.data.dataset import DataError

__all__ = ["Order", "shard"]


@dataclass(frozen=True)
class Order:
    """The global batches of every epoch, from a seed.

    Parameters
    ----------
    samples : int
        Samples in the training part.
    global_batch : int
        Samples that all ranks together use in one step.
    seed : int
        The same seed gives the same order, on any number of ranks.

    Raises
    ------
    DataError
        When an epoch would not have a single whole batch.
    """

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
    def steps(self):
        """Whole batches in an epoch."""
        return self.samples // self.global_batch

    @property
    def left_over(self):
        """Samples that an epoch leaves out; they are others in each epoch."""
        return self.samples % self.global_batch

    def epoch(self, epoch):
        """Return the batches of one epoch.

        Parameters
        ----------
        epoch : int
            Counted from 0.

        Returns
        -------
        numpy.ndarray
            int32, shape ``[steps, global_batch]``: positions in the training
            part, no position twice.
        """
        shuffled = np.random.default_rng([self.seed, epoch]).permutation(self.samples)
        used = shuffled[: self.steps * self.global_batch]
        return used.astype(np.int32).reshape(self.steps, self.global_batch)


def shard(batch, rank, size):
    """Return one rank's contiguous part of a global batch, or of many.

    Parameters
    ----------
    batch : numpy.ndarray
        Shape ``[..., global_batch]``.
    rank, size : int
        This rank, and the number of ranks.

    Returns
    -------
    numpy.ndarray
        Shape ``[..., global_batch / size]``, a view of `batch`.

    Raises
    ------
    DataError
        When the global batch can not be split evenly.
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
