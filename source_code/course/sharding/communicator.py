"""Horovod's collectives on flat arrays, with a count of the values sent.

`hvd.reducescatter` is missing because on Gloo, an all-to-all and a mean take a third to a half of the time (Horovod
0.28.1, 4 MiB on two and four ranks; docs/measured.md).
"""

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.training.gpu import pin_gpu
from ddl.errors import InputError

Groups = Sequence[Sequence[int]]


class Alone:
    """A group of one rank."""

    rank, size = staticmethod(lambda: 0), staticmethod(lambda: 1)


class World:
    """The ranks of a run, or a `group` of them; `sent` counts the values that this rank has sent to others.

    The methods take float32 arrays, NumPy's or TensorFlow's, and return TensorFlow's. All ranks make the same calls in
    the same order.
    """

    def __init__(self, group: hvd.ProcessSet | Alone | None = None):
        if group is None:
            os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"  # groups are added later
            hvd.init()
            pin_gpu()
        self._group = group or hvd.global_process_set
        self.rank, self.size = self._group.rank(), self._group.size()
        self.sent = 0

    def _send(self, numbers, values):
        """Return `values` and count what is sent for them, in a function of TensorFlow whenever it runs."""

        def count():
            self.sent += numbers

        if tf.executing_eagerly():
            count()
            return values
        with tf.control_dependencies([tf.py_function(count, [], [])]):
            return tf.identity(values)

    def per_rank(self, numbers: int) -> int:
        """Return the number of values per rank, with padding."""
        return -(-int(numbers) // self.size)

    def own(self, values):
        """Return this rank's shard of `values`, of any shape, padded with zeros: a NumPy array ``[per_rank]``."""
        flat = np.reshape(values, [-1])
        shard = self.per_rank(len(flat))
        own = flat[self.rank * shard : (self.rank + 1) * shard]
        return np.pad(own, (0, shard - len(own)))

    def all_reduce(self, values, total: bool = False):
        """Return the mean over all ranks, or their `total`, of the shape of `values`."""
        if self.size == 1:
            return values
        values = self._send(2 * (self.size - 1) * self.per_rank(math.prod(values.shape)), values)  # around a ring
        return hvd.allreduce(values, op=hvd.Sum if total else hvd.Average, process_set=self._group)

    def all_to_all(self, shards):
        """Send ``shards[k]`` to rank k; return what all ranks have sent to this one: ``[ranks, n]`` both."""
        shards = tf.convert_to_tensor(shards, tf.float32)
        if self.size == 1:
            return shards
        shards = self._send((self.size - 1) * shards.shape[1], shards)
        return tf.reshape(hvd.alltoall(tf.reshape(shards, [-1]), process_set=self._group), shards.shape)

    def reduce_scatter(self, values):
        """Return this rank's shard of the mean of all ranks' `values`: ``[per_rank]``, padded with zeros."""
        flat = tf.reshape(values, [-1])
        missing = self.size * self.per_rank(flat.shape[0]) - flat.shape[0]
        padded = tf.pad(flat, [[0, missing]]) if missing else flat
        return tf.reduce_mean(self.all_to_all(tf.reshape(padded, [self.size, -1])), axis=0)

    def all_gather(self, shard):
        """Return all ranks' shards, of equal length: ``[ranks, n]``."""
        shard = tf.convert_to_tensor(shard, tf.float32)
        if self.size == 1:
            return shard[None]
        shard = self._send((self.size - 1) * shard.shape[0], shard)
        return tf.reshape(hvd.allgather(shard, process_set=self._group), [self.size, -1])

    def whole(self, shard, shape):
        """Return the array of this `shape` from the ranks' shards."""
        values = tf.reshape(self.all_gather(shard), [-1])
        return tf.reshape(values[: math.prod(shape)], shape)


def meshed(axes: Sequence[Groups]) -> list[World]:
    """Return this rank's world along each axis of a mesh.

    Raises InputError unless the groups of each axis contain every rank once.
    """
    world = World()
    for groups in axes:
        if sorted(rank for group in groups for rank in group) != list(range(world.size)):
            raise InputError(f"the groups {list(groups)} do not contain each of the {world.size} ranks once")
    found, sets = [], {}
    for group in (group for groups in axes for group in groups):  # all ranks register all groups, in the same order
        if 1 < len(group) < world.size and tuple(group) not in sets:
            sets[tuple(group)] = hvd.add_process_set(group)
    for groups in axes:
        mine = next(group for group in groups if world.rank in group)
        found.append(World(Alone()) if len(mine) == 1 else World(sets.get(tuple(mine))))
    return found


class Ranks:
    """The reader's `world`: `rank`, `size`, and collectives on NumPy arrays."""

    def __init__(self, world: World | None = None):
        self._world = world or World()
        self.rank, self.size = self._world.rank, self._world.size
        self.spans = []  # when each message of `start` began and ended
        self._background = ThreadPoolExecutor(1)  # TensorFlow caches eager operations by type: two would share a name

    @property
    def sent(self) -> int:
        """Count of numbers sent to other ranks."""
        return self._world.sent

    def split(self, values) -> np.ndarray:
        """Split values into equal, zero-padded shards, one per rank: float32 ``[ranks, n]``."""
        values = np.asarray(values, np.float32).ravel()
        return np.pad(values, (0, -len(values) % self.size)).reshape(self.size, -1)

    def all_to_all(self, shards) -> np.ndarray:
        """Send ``shards[k]`` to rank k; return what each rank has sent to this one: float32 ``[ranks, n]`` both."""
        shards = np.asarray(shards, np.float32)
        if shards.ndim != 2 or len(shards) != self.size:
            raise InputError(f"all_to_all takes {self.size} shards of equal length, not the shape {shards.shape}")
        return self._world.all_to_all(shards).numpy()

    def all_gather(self, shard) -> np.ndarray:
        """Return all ranks' shards, which have equal lengths: float32 ``[ranks, n]``."""
        return self._world.all_gather(np.asarray(shard, np.float32).reshape(-1)).numpy()

    def all_sum(self, values) -> np.ndarray:
        """Return the sum of all ranks' values: float32, of the same shape."""
        return np.asarray(self._world.all_reduce(np.asarray(values, np.float32), total=True))

    def barrier(self):
        """Wait until all ranks have called this."""
        self.all_sum([0])

    def start(self, values) -> Future:
        """Begin to average values over all ranks; ``result()`` of what is returned waits for the mean.

        Ranks have to start the same messages in the same order.
        """
        values, begin = np.asarray(values, np.float32), time.perf_counter()
        future = self._background.submit(lambda: np.asarray(self._world.all_reduce(values)))
        future.add_done_callback(lambda _: self.spans.append((begin, time.perf_counter())))
        return future
