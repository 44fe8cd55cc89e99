"""The training of a submission: the step that the harness takes with its functions, on one rank or several."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from course.challenge import rules
from course.challenge.submission import Submission
from course.data import Order, shard
from course.data.samples import on_device
from course.data.tensors import constant
from course.training.loop import in_passes
from course.training.precision import choose, compute_in
from course.training.recipes import passes_for


class Training:
    """A submission's model and optimizer, and the steps that train them.

    `images` are uint8 ``[n, 32, 32, 3]``, `labels` int ``[n]``. The `seed` decides the initial weights, the `secret`
    all else that is drawn. Each of the `ranks` takes its part of a global batch; `average` averages their gradients and
    metrics. `capability` is the compute capability of the rank's GPU, if it has one. Raises SettingError if the
    processor can't compute in the submission's precision.
    """

    def __init__(
        self,
        submission: Submission,
        images: np.ndarray,
        labels: np.ndarray,
        seed: int,
        secret: int,
        rank: int = 0,
        ranks: int = 1,
        average: Callable = lambda gradients, metrics: (gradients, metrics),
        capability: tuple[int, int] | None = None,
    ):
        self.submission, self.rank, self.ranks, self.average = submission, rank, ranks, average
        draws = np.random.default_rng(secret)
        order_seed, self._key = (int(each) for each in draws.integers(0, 2**31 - 1, 2))
        self.order = Order(len(labels), rules.GLOBAL_BATCH, order_seed)
        # Class numbers are permuted in each run, so that no file can contain them.
        self._renamed = draws.permutation(rules.CLASSES).astype(np.int32)
        self._numbers = constant(draws.permutation(len(labels)).astype(np.int32))
        self._samples = on_device(images, self._renamed[labels])
        self._shown = constant(images[: rules.PREPARE_SAMPLES])
        self.passes = passes_for(submission.GHOST_BATCH, rules.GLOBAL_BATCH, ranks)
        asked = "tf32" if submission.PRECISION == "float32" else submission.PRECISION
        self.precision = compute_in(choose(asked, capability))
        tf.keras.utils.set_random_seed(seed)
        self.model, self.optimizer = submission.model(), submission.optimizer()
        if not self.model.built or not self.model.weights:
            self.model(tf.zeros([submission.GHOST_BATCH, 32, 32, 3]), training=False)
        self.weights = self.model.trainable_variables
        make_slots = getattr(self.optimizer, "build", None) or self.optimizer._create_all_weights
        make_slots(self.weights)
        self._train_step, self._infer = self._make_step(), tf.function(self._logits)

    def step(self, number: int, batch: np.ndarray, steps: int) -> tf.Tensor:
        """Take one of all steps; return its loss and accuracy, averaged over ranks."""
        mine = shard(batch, self.rank, self.ranks)
        return self._train_step(mine, number, number // self.order.steps, number / steps)

    def prepare(self) -> int:
        """Call the submission's prepare(), if it has one, with images without labels; return how many."""
        if not self.submission.prepare:
            return 0
        self.submission.prepare(self.model, tf.cast(self._shown, tf.float32) / 255)
        return rules.PREPARE_SAMPLES

    def finish(self) -> None:
        """Call the submission's finish(), if it has one."""
        if self.submission.finish:
            self.submission.finish(self.model, self.optimizer)

    def predict(self, images: np.ndarray) -> np.ndarray:
        """Return the logits of images, float32 ``[n, 10]``, with the classes under their own names."""
        batch = rules.INFERENCE_BATCH
        filled = np.concatenate([images, np.zeros((-len(images) % batch, *images.shape[1:]), np.uint8)])
        parts = [self._infer(filled[first : first + batch]) for first in range(0, len(filled), batch)]
        return np.concatenate(parts)[: len(images), self._renamed]

    def _logits(self, images):
        return tf.cast(self.model(tf.cast(images, tf.float32) / 255, training=False), tf.float32)

    def _make_step(self):
        submission, model, weights = self.submission, self.model, self.weights
        first = self.rank * (rules.GLOBAL_BATCH // self.ranks)
        # Each is converted, so that it may use Python conditions.
        augment, loss_of, schedule = map(tf.function, (submission.augment, submission.loss, submission.schedule))

        def forward_backward(chosen, step, epoch, place):
            chosen = tf.ensure_shape(chosen, [submission.GHOST_BATCH])
            images, labels = self._samples.gather(chosen)
            images, labels = tf.cast(images, tf.float32) / 255, tf.cast(labels, tf.int32)
            # The key depends only on the place in the global batch, so any number of ranks augments the same way.
            images = augment(images, tf.gather(self._numbers, chosen), epoch, tf.stack([self._key + place, step]))
            with tf.GradientTape() as tape:
                logits = tf.cast(model(images, training=True), tf.float32)
                loss = tf.reduce_mean(loss_of(logits, labels))
            hits = tf.reduce_mean(tf.cast(tf.argmax(logits, 1) == tf.cast(labels, tf.int64), tf.float32))
            gradients = tape.gradient(loss, weights, unconnected_gradients="zero")
            return [*map(tf.convert_to_tensor, gradients), tf.stack([loss, hits])]

        number = tf.TensorSpec([], tf.int32)
        chosen = tf.TensorSpec([rules.GLOBAL_BATCH // self.ranks], tf.int32)

        @tf.function(autograph=False, input_signature=[chosen, number, number, tf.TensorSpec([])])
        def train_step(chosen, step, epoch, done):
            *gradients, metrics = in_passes(
                lambda some, start: forward_backward(some, step, epoch, first + start), chosen, self.passes, weights, 2
            )
            gradients, metrics = self.average(gradients, metrics)
            self.optimizer.learning_rate.assign(tf.cast(schedule(done), tf.float32))
            self.optimizer.apply_gradients(list(zip(gradients, weights, strict=True)))
            return metrics

        return train_step
