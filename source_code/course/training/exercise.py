"""What the training of lesson 3's exercise has: a network, and `course.training.task`'s samples and record."""

import tensorflow as tf

from course.training import task

__all__ = ["Network", "Task"]


class Network(tf.Module):
    """An autoencoder: a frozen layer mixes a sample's numbers, `tied` squeezes them to a code, and spreads them again.

    Each process draws weights of its own, as it does where nobody sets a seed.
    """

    def __init__(self):
        super().__init__()
        start = task.initial()
        self.frozen = tf.Variable(start["frozen"], trainable=False, name="frozen")  # [12, 16]
        self.tied = tf.Variable(start["tied"], name="tied")  # [16, 5], used twice
        self.inner = tf.Variable(start["inner"], name="inner")  # [5]
        self.outer = tf.Variable(start["outer"], name="outer")  # [16]

    def loss(self, samples):
        """Return the mean squared difference between mixed numbers and what the code tells of them."""
        mixed = tf.tanh(samples @ self.frozen)
        code = mixed @ self.tied + self.inner
        again = tf.matmul(code, self.tied, transpose_b=True) + self.outer
        return tf.reduce_mean(tf.square(again - mixed))


class Task(task.Task):
    """Samples to train on, and a record of the training, in TensorFlow."""

    def _tensor(self, samples):
        return tf.constant(samples)

    def _weights(self, model):
        return {weight.name.split(":")[0]: weight.numpy() for weight in model.variables}
