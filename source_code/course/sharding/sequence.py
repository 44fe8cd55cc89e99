"""Sequence parallelism: outside the products that ranks split, each rank has its shard of the positions.

The all-reduce after a split layer becomes a reduce-scatter, and an all-gather precedes the next one (Korthikanti et al.
2022, "Reducing Activation Recomputation in Large Transformer Models", section 4.2).
"""

import tensorflow as tf

from course.sharding.communicator import World


def product(x, matrix):
    """Return x @ matrix for x of more than two dimensions, as one product of matrices."""
    return tf.reshape(tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), matrix), [*x.shape[:-1], matrix.shape[-1]])


def transposed(x, y):
    """Return xᵀ @ y, summed over all dimensions but the last."""
    return tf.matmul(tf.reshape(x, [-1, x.shape[-1]]), tf.reshape(y, [-1, y.shape[-1]]), transpose_a=True)


class Sequence:
    """The ends of split layers; arrays are float32 ``[batch, positions, width]``."""

    def __init__(self, world: World):
        self._world = world

    def enter(self, x, matrix):
        """Return the product of all ranks' positions with a matrix; they are gathered again for its gradient."""

        @tf.custom_gradient
        def entered(x, matrix):
            def back(of_result):
                whole = self._gathered(x)
                return self._summed(product(of_result, tf.transpose(matrix))), transposed(whole, of_result)

            return product(self._gathered(x), matrix), back

        return entered(x, matrix)

    def leave(self, x, matrix):
        """Return this rank's positions of the sum over ranks of such a product."""

        @tf.custom_gradient
        def left(x, matrix):
            def back(of_result):
                whole = self._gathered(of_result)
                return product(whole, tf.transpose(matrix)), transposed(x, whole)

            return self._summed(product(x, matrix)), back

        return left(x, matrix)

    def split(self, x):
        """Return this rank's positions of an array that is the same on all ranks."""
        return tf.custom_gradient(lambda x: (self._own(x), self._gathered))(x)

    def join(self, x):
        """Return all ranks' positions; each rank computes the same with them."""
        return tf.custom_gradient(lambda x: (self._gathered(x), self._own))(x)

    def _own(self, whole):
        return tf.split(whole, self._world.size, axis=1)[self._world.rank]

    def _gathered(self, own):
        shards = self._world.all_gather(tf.reshape(own, [-1]))
        return tf.concat([tf.reshape(shard, own.shape) for shard in tf.unstack(shards)], axis=1)

    def _summed(self, whole):
        shards = tf.stack(tf.split(whole, self._world.size, axis=1))
        return tf.reshape(self._world.size * self._world.reduce_scatter(shards), shards.shape[1:])
