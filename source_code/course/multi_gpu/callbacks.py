"""Keras callbacks of ``train_text.py``: evaluation, records and early stopping."""

import numpy as np
import tensorflow as tf

from course.training.strategy import mean_so_far

EVALUATION_BATCH = 1000


def make_scores(strategy, model):
    """Return a function from texts to the model's probabilities, float32 ``[n]``."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def forward(texts):
        # On the replicas, which hold the variables; all compute the same.
        return strategy.run(model, (texts,), {"training": False})

    def scores(texts):
        parts = [slice(first, first + EVALUATION_BATCH) for first in range(0, len(texts), EVALUATION_BATCH)]
        results = [strategy.experimental_local_results(forward(tf.constant(texts[part]))) for part in parts]
        return np.concatenate([replicas[0].numpy()[:, 0] for replicas in results])

    return scores


class Validation(tf.keras.callbacks.Callback):
    """Callback that adds validation loss and accuracy to an epoch's logs, on every rank.

    Every rank computes all of them, so that all stop after the same epoch. The clock stops meanwhile.
    """

    def __init__(self, evaluate, part, journal):
        super().__init__()
        self.evaluate, self.part, self.journal = evaluate, part, journal

    def on_epoch_end(self, epoch, logs=None):
        with self.journal.paused():
            logs["val_loss"], logs["val_accuracy"] = self.evaluate(self.part)


class Records(tf.keras.callbacks.Callback):
    """Callback that keeps time on every rank and records steps and epochs on rank 0."""

    def __init__(self, evaluate, part, journal, rate, **facts):
        super().__init__()
        self.evaluate, self.part, self.journal, self.rate = evaluate, part, journal, rate
        self.facts, self.done, self.total = facts, 0, 0.0

    def on_train_begin(self, logs=None):
        self.journal.start(**self.facts)

    def on_train_batch_end(self, batch, logs=None):
        self.done += 1
        total = mean_so_far(logs, self.model) * (batch + 1)
        self.journal.step(self.done, total - self.total * (batch > 0), self.rate)
        self.total = total

    def on_epoch_end(self, epoch, logs=None):
        if not self.journal.recorder:
            return
        with self.journal.paused():
            test_loss, test_accuracy = self.evaluate(self.part)
        self.journal.evaluation(
            self.done,
            loss=logs["loss"],
            accuracy=logs["accuracy"],
            validation_loss=logs["val_loss"],
            validation_accuracy=logs["val_accuracy"],
            test_loss=test_loss,
            test_accuracy=test_accuracy,
            learning_rate=self.rate,
        )


def horovod_callbacks():
    """Return Horovod's Keras callbacks, bound to the Keras module in use."""
    from horovod.tensorflow.keras import callbacks

    callbacks.K = tf.keras.backend  # in later versions of TensorFlow, this would be Keras 3
    return callbacks


class Stopping(tf.keras.callbacks.EarlyStopping):
    """Early stopping that restores the best weights even after the last epoch."""

    def on_train_end(self, logs=None):
        super().on_train_end(logs)
        self.model.set_weights(self.best_weights)
