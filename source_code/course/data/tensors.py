"""Tensors of arrays that are mapped into memory, without a copy, and datasets of batches of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.ops import multi_device_iterator_ops

from course.data.store import ALIGNMENT


class _Writable:
    """Presents an array, which NumPy hands over only as one that may be written, and keeps it alive."""

    def __init__(self, array):
        self.array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def constant(array: np.ndarray) -> tf.Tensor:
    """Return an array as a tensor where ``tf.constant`` would put it: in a processor's memory the array's own.

    Ranks of a host then share the pages of a mapped array. Neither the array nor the tensor may be changed afterward.
    """
    on_host = ":CPU:" in tf.constant(array[:1]).device
    aligned = array.ctypes.data % ALIGNMENT == 0  # what TensorFlow's kernels take for granted
    if not (on_host and aligned and array.flags.c_contiguous):
        return tf.constant(array)
    return tf.experimental.dlpack.from_dlpack(np.asarray(_Writable(array)).__dlpack__())


def batches(numbers: np.ndarray, pick: Callable[[tf.Tensor], tuple[tf.Tensor, ...]]) -> tf.data.Dataset:
    """Return a dataset of `pick` of each row of sample numbers, int ``[steps, batch]``, two batches ahead."""
    options = tf.data.Options()
    # A strategy with several processes splits every batch, because there are no files to split.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    one_by_one = tf.data.Dataset.from_tensor_slices(numbers.ravel())
    return untuned(one_by_one.batch(numbers.shape[1], drop_remainder=True).map(pick).prefetch(2).with_options(options))


def untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a dataset without the autotuner of tf.data, and so in the iterators that a strategy makes for its devices.

    It has nothing to tune in the course's datasets. In TensorFlow 2.15.1 the end of a loop may wait for its thread,
    until 20, 41, 82 or 142 s after the start.
    """
    multi_device_iterator_ops._create_device_dataset = _untuned_on_device
    return _untuned(dataset)


def _untuned(dataset: tf.data.Dataset) -> tf.data.Dataset:
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


_on_device = multi_device_iterator_ops._create_device_dataset  # has no public option


def _untuned_on_device(*arguments: Any) -> tf.data.Dataset:
    return _untuned(_on_device(*arguments))
