"""Random flips and shifts of images, inside the TensorFlow graph.

Randomness is a pure function of seed, step and position in the global batch, so any number of ranks sees the same
augmented images.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

SHIFT = 4  # pixels in each direction, as in padding by 4 and cropping
SIDE = 32
_SHIFTS = 2 * SHIFT + 1
DRAWS = 2 * _SHIFTS**2  # ways to flip and shift an image


def augment(
    images: tf.Tensor, seed: tf.Tensor | Sequence[int], offset: int | tf.Tensor, global_batch: int | tf.Tensor
) -> tf.Tensor:
    """Mirror half of the images and shift each by up to 4 pixels, filling the gap by reflection.

    `images`, of any dtype and shape ``[batch, 32, 32, 3]``, are this rank's shard of the global batch, and `offset` is
    the position of its first image there. `seed`, int32 ``[2]``, is the run's seed and the step.
    """
    batch = tf.shape(images)[0]
    whole = tf.int64 if tf.config.list_physical_devices("GPU") else tf.int32  # GPUs have no kernels for int32's sums
    draw = tf.cast(draws(seed, offset, batch, global_batch), whole)
    picture = tf.cast(tf.range(batch), whole)[:, None, None] * (SIDE * SIDE)
    return tf.gather(tf.reshape(images, [-1, 3]), picture + pixels(draw))


def draws(seed, offset, batch, global_batch) -> tf.Tensor:
    """Return a random number below `DRAWS` for each image of a rank's shard, int32 ``[batch]``: its flip and shifts."""
    # The algorithm is explicit because the default differs between CPU and GPU.
    every = tf.random.stateless_uniform([global_batch], seed, maxval=DRAWS, dtype=tf.int32, alg="philox")
    return every[offset : offset + batch]


def pixels(draw: tf.Tensor) -> tf.Tensor:
    """Return which of an image's 1,024 pixels come where, ``[batch, 32, 32]``, in the dtype of the `draw`."""
    flip, down, right = draw % 2, draw // 2 % _SHIFTS - SHIFT, draw // (2 * _SHIFTS) - SHIFT
    # Flips and shifts permute rows and columns, so a single gather does both.
    line = tf.constant(np.arange(SIDE), draw.dtype)
    rows = _reflect(line + down[:, None])
    columns = _reflect(line + right[:, None])
    columns = tf.where(flip[:, None] == 1, SIDE - 1 - columns, columns)
    return rows[:, :, None] * SIDE + columns[:, None, :]


def _reflect(position):
    """Fold positions outside 0..31 back in, without repeating the edge."""
    position = tf.abs(position)
    return tf.minimum(position, 2 * (SIDE - 1) - position)


def normalize(images: tf.Tensor) -> tf.Tensor:
    """Convert uint8 images to float32 with roughly zero mean and unit variance, in about -2 to 2.

    The constants suit a generic photograph, so all data sets use the same ones.
    """
    return (tf.cast(images, tf.float32) - 120.0) / 64.0
