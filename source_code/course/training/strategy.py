"""Shared parts of the scripts in ``source_code/strategies``: data, model, evaluation and records.

The scripts train the same network on the same order of samples, each with a different strategy. Each file contains only
its strategy, and everything else is here.
"""

import math
import sys
from pathlib import Path

import numpy as np

from course.data import DataError, Order, load, shard
from course.training.recipes import scaled
from course.training.training_log import Means, TrainingLog
from ddl.text import plural

MOMENTUM = 0.9
KEPT = tuple(4**power for power in range(6))  # updates after which weights are saved, besides the last
TEST_BATCH = 500  # small enough for any device, large enough to keep it busy


class Experiment:
    """A training: its data and model, its clock and its records.

    The constructor touches neither TensorFlow's devices nor its threads, so a strategy can still configure them.
    Options that don't fit the data end the script.

    `rank` is this process's among the `ranks` that compute; rank 0 evaluates and writes. The processes share every
    batch, unless each takes whole ones (`splits` False). An update of the weights averages over `global_batch` samples;
    there are `steps` updates in all, `steps_per_epoch` in a whole epoch, and `epochs`, the last of which may be cut
    short. `prefer` is the real data set that ``--data-set auto`` looks for.
    """

    prefer = "cifar10"

    def __init__(self, config, *, rank: int = 0, ranks: int = 1, splits: bool = True):
        self.config, self.rank, self.ranks = config, rank, ranks
        self.replicas = ranks * getattr(config, "replicas", 1)
        self.global_batch = config.global_batch
        self._per_rank_batch = config.global_batch // (ranks if splits else 1)
        try:
            parts = dict(train_samples=config.train_samples, test_samples=config.test_samples)
            self.data = load(config.data_set, prefer=self.prefer, **parts)
            self._order = Order(self.data.train_samples, config.global_batch, config.seed)
            if splits:
                shard(np.empty(config.global_batch), 0, self.replicas)  # raises an error for uneven parts
        except DataError as error:
            sys.exit(f"{Path(sys.argv[0]).name}: {error}")
        self.steps_per_epoch = self._order.steps
        self.steps = config.steps or max(1, round(config.epochs * self.steps_per_epoch))
        self.epochs = math.ceil(self.steps / self.steps_per_epoch)
        self._log = TrainingLog(rank == 0, self.steps, self.steps_per_epoch, config.global_batch)
        self._devices, self._done, self._means = None, 0, Means()
        self._weights = {}
        if self.data.note:
            self._log.note(self.data.note)

    def rate(self, batch: int) -> float:
        """Return the rate for a batch, by the linear rule of Goyal et al. 2017, section 2.1."""
        return scaled(self.config.learning_rate, batch, "linear")

    def devices(self) -> list[str]:
        """Return the names of this process's replicas' devices; see `devices_for`."""
        self._devices, note = devices_for(self.config.replicas)
        if note:
            self._log.note(note)
        return self._devices

    def model(self):
        """Return the course's network with group norm, determined by the seed.

        With batch norm, splitting a batch among replicas would change the result; without a norm, the network takes too
        long to learn.
        """
        from course.training import models
        from course.training.precision import set_precision

        set_precision("float32")  # not TF32: strategies are compared to the last digits
        return models.build("cnn", norm="group", seed=self.config.seed, classes=len(self.data.class_names))

    def dataset(self, rank: int = 0, ranks: int = 1):
        """Return the batches of the whole training, in an order determined by the seed.

        A ``tf.data.Dataset`` of `steps` elements: normalized images, float32 ``[batch, 32, 32, 3]``, and labels, int32
        ``[batch]``. With `rank` of `ranks`, that part of every batch.
        """
        import tensorflow as tf

        from course.data.augment import normalize
        from course.data.tensors import batches, constant

        numbers = np.concatenate([self._order.epoch(epoch) for epoch in range(self.epochs)])
        numbers = shard(numbers[: self.steps], rank, ranks)
        with tf.device("CPU:0"):  # keep the images in the host's memory, not a GPU's
            images, labels = constant(self.data.train_images), constant(self.data.train_labels)
        return batches(numbers, lambda some: (normalize(tf.gather(images, some)), tf.gather(labels, some)))

    def callback(self, model):
        """Return the Keras callback that records a ``Model.fit``."""
        import tensorflow as tf

        self._evaluate = self._evaluation()
        total = 0.0  # of this epoch's losses

        def batch_end(batch, logs):
            nonlocal total
            before, total = total, mean_so_far(logs, model) * (batch + 1)
            self._count(model, total - before)
            model.stop_training = self._done == self.steps

        def epoch_end(_, logs):
            nonlocal total
            total = 0.0
            self._write(model, logs["loss"], logs["accuracy"])

        return tf.keras.callbacks.LambdaCallback(
            on_train_begin=lambda _: self._start(), on_batch_end=batch_end, on_epoch_end=epoch_end
        )

    def start(self):
        """Start the clock of a custom loop."""
        self._evaluate = self._evaluation()
        self._start()

    def step(self, model, figures):
        """Count a finished update of a custom loop, and evaluate at the end of an epoch.

        `figures` are loss and accuracy over the global batch, float32 ``[2]``.
        """
        self._means.add(figures)
        self._count(model, figures[0])
        if self.epoch_ends(self._done):
            self._write(model, *self._means.pop())

    def weights_of(self, model) -> list[np.ndarray]:
        """Return a model's weights in Keras' layout, float32."""
        return model.get_weights()

    def epoch_ends(self, done: int) -> bool:
        """Return whether rank 0 evaluates after `updates` updates."""
        return self._log.epoch_ends(done)

    def _start(self):
        facts = self.data.describe()
        self._log.print(
            f"data: {facts['name']} ({facts['form']}), {facts['train_samples']} training and "
            f"{facts['test_samples']} test images\n"
            f"batch: {self.replicas} replicas in {self.ranks} processes, {self.global_batch} "
            f"samples per update, learning rate {self.rate(self.global_batch):g}"
        )
        self._log.start(world=self.ranks, per_rank_batch=self._per_rank_batch, data=facts)

    def _count(self, model, loss):
        self._done += 1
        self._log.step(self._done, loss, self.rate(self.global_batch))
        if self.rank == 0 and (self._done in KEPT or self._done == self.steps):
            with self._log.paused():
                self._weights[self._done] = self.weights_of(model)

    def _write(self, model, loss, accuracy):
        if self.rank == 0:
            with self._log.paused():
                test_loss, test_accuracy = self._evaluate(model)
            self._log.evaluation(
                self._done,
                loss=loss,
                accuracy=accuracy,
                test_loss=test_loss,
                test_accuracy=test_accuracy,
                learning_rate=self.rate(self.global_batch),
            )

    def _evaluation(self):
        """Return a function that evaluates a model's held-out loss and accuracy, built outside any strategy's scope."""
        evaluate, data = make_evaluation(self.model()), self.data
        return lambda model: evaluate(model, data.test_images, data.test_labels)

    def finish(self, model, **facts):
        """Write ``result.json``, with the strategy's `facts`, and ``weights.npz``, on rank 0 only."""
        if self.rank:
            return None
        if folder := self._log.recorder.folder:
            kept = [(step, *each) for step, weights in self._weights.items() for each in enumerate(weights)]
            np.savez(folder.weights, **{f"{step}.{index}": weight for step, index, weight in kept})
        return self._log.result(
            config=vars(self.config),
            strategy=Path(sys.argv[0]).stem,
            model="cnn, group norm",
            parameters=sum(each.size for each in self.weights_of(model)),
            data=self.data.describe(),
            ranks=self.ranks,
            replicas=self.replicas,
            devices=self._devices,
            per_rank_batch=self._per_rank_batch,
            global_batch=self.global_batch,
            seed=self.config.seed,
            learning_rate=self.rate(self.global_batch),
            **facts,
        )


# ---------------------------------------------------------------- devices and figures


def devices_for(replicas: int) -> tuple[list[str], str | None]:
    """Choose the replicas' devices: GPUs, or logical devices if there are too few GPUs.

    Call this before anything has run on a device. Returns their names, such as ``["GPU:0", "GPU:1"]``, and a note for
    the record or None.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) >= replicas:
        return [f"GPU:{index}" for index in range(replicas)], None
    tf.config.set_visible_devices([], "GPU")
    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
    return [f"CPU:{index}" for index in range(replicas)], (
        f"{replicas} replicas are logical devices of one processor and share its cores, because "
        f"this machine has {plural(len(gpus), 'GPU')}: they compute what {replicas} GPUs would, but no "
        "faster than one device."
    )


def make_evaluation(copy):
    """Return a function that evaluates a model's mean loss and accuracy on images and labels.

    It evaluates a `copy` of the model on this process's first device, because the model's variables may be on several
    devices or in other processes.
    """
    import tensorflow as tf

    from course.data.augment import normalize

    @tf.function(autograph=False)
    def sums(images, labels):
        return tf.reduce_sum(losses_and_hits(labels, copy(normalize(images), training=False)), axis=1)

    def evaluate(model, images, labels):
        copy.set_weights(model.get_weights())
        parts = [slice(first, first + TEST_BATCH) for first in range(0, len(labels), TEST_BATCH)]
        total = sum(sums(images[part], labels[part]) for part in parts)
        return (total / len(labels)).numpy().tolist()

    return evaluate


def mean_so_far(logs, model):
    """Return the mean loss since the start of the epoch, from Keras' logs at the end of a batch.

    With several processes, each has the mean over all of them, and Keras 2.15 adds these up again.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return logs["loss"] / (strategy.num_replicas_in_sync if several else 1)


def losses_and_hits(labels, logits):
    """Return each sample's cross-entropy, and 1 if its largest logit is correct, else 0: float32 ``[batch]``.

    `labels` are int32 ``[batch]``, `logits` float32 ``[batch, classes]``.
    """
    import tensorflow as tf

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    right = tf.argmax(logits, 1) == tf.cast(labels, tf.int64)  # GPUs can't compare int32
    return [losses, tf.cast(right, tf.float32)]
