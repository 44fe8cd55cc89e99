"""A data set's images and labels where a rank computes, and how its graph gathers some of them.

TensorFlow 2.15 has no GPU kernel that gathers uint8, and leaves int32 arithmetic to the processor. So a GPU keeps each
pixel as a word of four bytes, and computes which pixels to take in int64. Both ways give the same images.
"""

import numpy as np
import tensorflow as tf

from course.data.augment import DRAWS, SIDE, augment, draws, pixels
from course.data.tensors import constant

FOURTH_BYTE = 63  # makes each word a float32 from 0.5 to 2, which no kernel can mistake for a NaN or round to zero


def on_device(images: np.ndarray, labels: np.ndarray) -> "InHostMemory | InGpuMemory":
    """Return the samples, uint8 ``[n, 32, 32, 3]`` and int ``[n]``, in the memory of TensorFlow's default device."""
    return (InGpuMemory if ":GPU:" in tf.constant(0.0).device else InHostMemory)(images, labels)


class InHostMemory:
    """Samples in the processor's memory, without a copy if the arrays are mapped from a file."""

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        self._images, self._labels = constant(images), constant(labels)

    def gather(self, numbers: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the images, uint8, and labels with these numbers, int32 ``[batch]``."""
        return tf.gather(self._images, numbers), tf.gather(self._labels, numbers)

    def augmented(self, numbers: tf.Tensor, seed, offset, global_batch) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the same, with the images flipped and shifted as by `augment`."""
        images, labels = self.gather(numbers)
        return augment(images, seed, offset, global_batch), labels


class InGpuMemory:
    """Samples in a GPU's memory, gathered there; the same functions as `InHostMemory`."""

    def __init__(self, images: np.ndarray, labels: np.ndarray):
        words = np.full([len(images), SIDE * SIDE, 4], FOURTH_BYTE, np.uint8)
        words[..., :3] = images.reshape(len(images), -1, 3)
        self._words = tf.constant(words.view(np.float32)[..., 0])
        self._labels = tf.constant(labels, tf.int64)  # an int32 constant would stay in the host's memory

    def gather(self, numbers):
        numbers = tf.cast(numbers, tf.int64)
        return _images(tf.gather(self._words, numbers)), tf.gather(self._labels, numbers)

    def augmented(self, numbers, seed, offset, global_batch):
        with tf.device("CPU:0"):  # one small message to the GPU for both, as each waits for the steps before
            draw = draws(seed, offset, tf.shape(numbers)[0], global_batch)
            both = tf.cast(numbers, tf.int64) * DRAWS + tf.cast(draw, tf.int64)
        numbers, draw = both // DRAWS, both % DRAWS
        places = numbers[:, None, None] * (SIDE * SIDE) + pixels(draw)
        return _images(tf.gather(tf.reshape(self._words, [-1]), places)), tf.gather(self._labels, numbers)


def _images(words):
    """Return pixels' words as images, uint8 ``[batch, 32, 32, 3]``."""
    return tf.reshape(tf.bitcast(words, tf.uint8), [-1, SIDE, SIDE, 4])[..., :3]
