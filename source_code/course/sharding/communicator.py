"""Horovod's collectives on flat arrays, with a count of the values sent.

`hvd.reducescatter` is missing because on Gloo, an all-to-all and a mean take a third to a half of the time (Horovod
0.28.1, 4 MiB on two and four ranks; docs/measured.md).
"""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


class World:
    """The ranks of a run; `sent` counts the values that this rank has sent to others.

    The methods take float32 arrays, NumPy's or TensorFlow's, and return TensorFlow's. All ranks make the same calls in
    the same order, each with a unique `name`.
    """

    def __init__(self):
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()
        self.sent = 0

    def per_rank(self, numbers: int) -> int:
        """Return the number of values per rank, with padding."""
        return -(-int(numbers) // self.size)

    def own(self, values):
        """Return this rank's part of `values`, of any shape, padded with zeros: a NumPy array ``[per_rank]``."""
        flat = np.reshape(values, [-1])
        part = self.per_rank(len(flat))
        own = flat[self.rank * part : (self.rank + 1) * part]
        return np.pad(own, (0, part - len(own)))

    def all_reduce(self, values, name: str, total: bool = False):
        """Return the mean over all ranks, or their `total`, of the shape of `values`."""
        if self.size == 1:
            return values
        self.sent += 2 * (self.size - 1) * self.per_rank(tf.size(values).numpy())  # around a ring
        return hvd.allreduce(values, op=hvd.Sum if total else hvd.Average, name=name)

    def all_to_all(self, parts, name: str):
        """Send ``parts[k]`` to rank k; return what all ranks have sent to this one: ``[ranks, n]`` both."""
        parts = tf.convert_to_tensor(parts, tf.float32)
        if self.size == 1:
            return parts
        self.sent += (self.size - 1) * parts.shape[1]
        return tf.reshape(hvd.alltoall(tf.reshape(parts, [-1]), name=name), parts.shape)

    def reduce_scatter(self, values, name: str):
        """Return this rank's part of the mean of all ranks' `values`: ``[per_rank]``, padded with zeros."""
        flat = tf.reshape(values, [-1])
        missing = self.size * self.per_rank(flat.shape[0]) - flat.shape[0]
        padded = tf.pad(flat, [[0, missing]]) if missing else flat
        return tf.reduce_mean(self.all_to_all(tf.reshape(padded, [self.size, -1]), name), axis=0)

    def all_gather(self, part, name: str):
        """Return all ranks' parts, of equal length: ``[ranks, n]``."""
        part = tf.convert_to_tensor(part, tf.float32)
        if self.size == 1:
            return part[None]
        self.sent += (self.size - 1) * part.shape[0]
        return tf.reshape(hvd.allgather(part, name=name), [self.size, -1])

    def whole(self, part, shape, name: str):
        """Return the array of this `shape` from the ranks' parts."""
        values = tf.reshape(self.all_gather(part, name), [-1])
        return tf.reshape(values[: int(np.prod(shape))], shape)

    def pass_on(self, messages: dict[int, tf.Tensor], name: str) -> dict[int, tf.Tensor]:
        """Send arrays to the ranks in `messages`; return received flat arrays by sender. All ranks call this.

        It is an all-to-all in which most splits are 0.
        """
        flat = [tf.reshape(messages.get(rank, tf.zeros([0])), [-1]) for rank in range(self.size)]
        splits = [part.shape[0] for part in flat]
        self.sent += sum(splits)
        received, counts = hvd.alltoall(tf.concat(flat, 0), splits=splits, name=name)
        parts = tf.split(received, counts)
        return {rank: part for rank, part in enumerate(parts) if part.shape[0]}
