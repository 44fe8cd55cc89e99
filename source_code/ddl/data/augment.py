"""Random flips and shifts of pictures, inside the TensorFlow graph.

Randomness is a pure function of (seed, step, position in the global batch).
Any number of ranks therefore sees the same augmented pictures.
"""

import tensorflow as tf

__all__ = ["augment", "normalise"]

SHIFT = 4  # pixels in each direction; what crop-after-padding by 4 gives
SIDE = 32


def augment(images, seed, offset, global_batch):
    """Mirror half of the pictures and shift each by up to 4 pixels.

    What a shift uncovers is filled by reflection. Flip and shift are both
    permutations of rows and columns, so one gather of pixels does them.

    Parameters
    ----------
    images : tf.Tensor
        uint8 (or any dtype), shape ``[batch, 32, 32, 3]``: this rank's part of
        the global batch.
    seed : tf.Tensor or sequence of int
        int32, shape ``[2]``: (seed of the run, step).
    offset : int or tf.Tensor
        Position of ``images[0]`` in the global batch.
    global_batch : int or tf.Tensor
        Size of the global batch. All of its draws are made (one integer per
        picture) and this rank's are used.

    Returns
    -------
    tf.Tensor
        Same shape and dtype as `images`.
    """
    batch = tf.shape(images)[0]
    way = 2 * SHIFT + 1
    # One number per picture holds its three choices. Philox is named because
    # the default generator differs between CPU and GPU.
    draw = tf.random.stateless_uniform([global_batch], seed, maxval=2 * way * way, dtype=tf.int32, alg="philox")[
        offset : offset + batch
    ]
    flip, down, right = draw % 2, draw // 2 % way - SHIFT, draw // (2 * way) - SHIFT

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


def normalise(images):
    """Turn uint8 pictures into float32 with about zero mean and unit spread.

    The constants are those of a generic photograph, not of one data set, so
    that both data sets of the course are treated alike.

    Parameters
    ----------
    images : tf.Tensor
        uint8, shape ``[batch, 32, 32, 3]``.

    Returns
    -------
    tf.Tensor
        float32, same shape, roughly within -2 to 2.
    """
    return (tf.cast(images, tf.float32) - 120.0) / 64.0
