"""Random flips and shifts of pictures, inside the TensorFlow graph.

Randomness is a pure function of seed, step and position in the global batch, so any number of ranks sees the same
augmented pictures.
"""

from collections.abc import Sequence

import tensorflow as tf

SHIFT = 4  # pixels in each direction; what crop-after-padding by 4 gives
SIDE = 32


def augment(
    images: tf.Tensor, seed: tf.Tensor | Sequence[int], offset: int | tf.Tensor, global_batch: int | tf.Tensor
) -> tf.Tensor:
    """Mirror half of the pictures and shift each by up to 4 pixels; reflection fills what a shift uncovers.

    `images`, of any dtype and shape ``[batch, 32, 32, 3]``, are this rank's part of the global batch, and `offset` is
    the position of the first one there. `seed`, int32 ``[2]``, is the run's seed and the step.
    """
    batch = tf.shape(images)[0]
    shifts = 2 * SHIFT + 1
    # One number per picture of the global batch holds its three choices. The generator is named because the default
    # one differs between CPU and GPU.
    draws = tf.random.stateless_uniform([global_batch], seed, maxval=2 * shifts**2, dtype=tf.int32, alg="philox")
    draw = draws[offset : offset + batch]
    flip, down, right = draw % 2, draw // 2 % shifts - SHIFT, draw // (2 * shifts) - SHIFT

    # Flip and shift both permute rows and columns, so one gather of pixels does them.
    line = tf.range(SIDE)
    rows = _reflect(line + down[:, None])
    columns = _reflect(line + right[:, None])
    columns = tf.where(flip[:, None] == 1, SIDE - 1 - columns, columns)
    picture = tf.range(batch)[:, None, None] * (SIDE * SIDE)
    pixels = picture + rows[:, :, None] * SIDE + columns[:, None, :]
    return tf.gather(tf.reshape(images, [-1, 3]), pixels)


def _reflect(position):
    """Fold positions outside 0..31 back in, without repeating the edge."""
    position = tf.abs(position)
    return tf.minimum(position, 2 * (SIDE - 1) - position)


def normalise(images: tf.Tensor) -> tf.Tensor:
    """Turn uint8 pictures into float32 of about zero mean and unit spread, roughly within -2 to 2.

    The constants are those of a generic photograph, so that all data sets are treated alike.
    """
    return (tf.cast(images, tf.float32) - 120.0) / 64.0
