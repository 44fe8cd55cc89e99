"""Train the course's network on house numbers, with a training step from another file.

    ddl run --workers 1 svhn_loop.py --loop my_loop.py --epochs 4
    python source_code/course/multi_gpu/scripts/svhn_loop.py --loop my_loop.py --replicas 2 --steps 100

The file must define ``make_step(strategy, model, optimizer, global_batch)``: it returns a function of a distributed
batch (normalized images, labels) that takes one training step on all replicas and returns the mean loss over the global
batch. Before training, one such step is compared with the same step on a single device; the record shows if they
agree.

The data are SVHN (`ddl data fetch svhn`), or generated images of the same form.
"""

from pathlib import Path

from course.training.options import SEED, Integer, Number, add_data, parser, run, split_evenly


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--loop", required=True, metavar="FILE", help="defines make_step")
    add_data(ours, real="svhn")
    add("--replicas", type=Integer(), default=2, help="GPUs, or logical devices if there are fewer GPUs")
    add("--epochs", type=Integer(), default=2)
    add("--steps", type=Integer(), help="train for this many steps instead")
    add("--global-batch", type=Integer(), default=64, help="samples per step over all replicas")
    add("--learning-rate", type=Number(above=0), default=1e-3, metavar="RATE", help="of Adam")
    add("--seed", type=SEED, default=0, help="of initial weights and order")
    config = ours.parse_args(arguments)
    if not Path(config.loop).is_file():
        ours.error(
            f"--loop {config.loop}: not found in {Path.cwd()}; the file must define "
            "make_step(strategy, model, optimizer, global_batch)"
        )
    split_evenly(ours, config)
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import math

import numpy as np
import tensorflow as tf

from course.multi_gpu.loop_harness import step_maker
from course.training.strategy import Experiment, losses_and_hits, make_evaluation
from ddl.errors import InputError

CHECK_RATE = 0.1  # of plain SGD: any factor on the gradient is then a factor on the update
TOLERANCE = 1e-3  # of the update's length: float32 sums in another order are off by about 1e-6


class HouseNumbers(Experiment):
    """The strategies' training, on house numbers, by a step that returns the loss alone."""

    prefer = "svhn"

    def rate(self, batch):
        """Return Adam's rate, which does not depend on the batch."""
        return self.config.learning_rate

    def compare_step(self, make_step, strategy):
        """Compare one step on all replicas with the same step on a single device, both by SGD.

        Returns whether both agree, the length of the weights' update relative to the single device's (``ratio``), and a
        ``note`` if they disagree, else None.
        """
        with strategy.scope():
            model = self.model()
            optimizer = tf.keras.optimizers.SGD(CHECK_RATE)
        before = flat(model)
        step = make_step(strategy, model, optimizer, self.global_batch)
        batches = self.dataset().take(1)
        first = next(iter(strategy.experimental_distribute_dataset(batches)))
        loss = step(*first)
        try:
            loss = float(loss)
        except (TypeError, ValueError):
            raise InputError(
                f"the step returned {type(loss).__name__}, which is not one number: it has "
                "to return the mean loss over the global batch"
            ) from None
        ours = flat(model) - before

        single = self.model()
        images, labels = next(iter(batches))
        with tf.GradientTape() as tape:
            single_loss = tf.reduce_mean(losses_and_hits(labels, single(images, training=True))[0])
        gradients = tape.gradient(single_loss, single.trainable_variables)
        right = -CHECK_RATE * np.concatenate([np.ravel(each) for each in gradients]).astype(np.float64)

        length = np.linalg.norm(right)
        error, ratio = np.linalg.norm(ours - right) / length, np.linalg.norm(ours) / length
        agrees = bool(error < TOLERANCE and math.isclose(loss, float(single_loss), rel_tol=TOLERANCE))
        note = (
            f"the first step does not agree with a single device's: its update is {ratio:.3g} times as long and off by "
            f"{error:.1%} of it; its loss is {loss:.4f}, a single device's {float(single_loss):.4f}"
        )
        if not agrees:
            self._journal.note(note)
        return {"agrees": agrees, "ratio": float(ratio), "note": None if agrees else note}

    def step(self, model, loss):
        """Count a finished step; at the end of an epoch, evaluate on as many training as test images, and on those."""
        self._count(model, loss)
        if self.epoch_ends(self._done):
            seen = slice(0, self.data.test_samples)
            with self._journal.paused():
                figures = self._on(model, self.data.train_images[seen], self.data.train_labels[seen])
            self._write(model, *figures)

    def _evaluation(self):
        self._on = make_evaluation(self.model())
        return lambda model: self._on(model, self.data.test_images, self.data.test_labels)


def main(config):
    make_step = step_maker(config.loop)
    training = HouseNumbers(config)
    strategy = tf.distribute.MirroredStrategy(training.devices())
    checked = training.compare_step(make_step, strategy)
    # Create everything with variables in the strategy's scope, so that each replica gets them.
    with strategy.scope():
        model = training.model()
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)
    train_step = make_step(strategy, model, optimizer, config.global_batch)
    training.start()
    for batch in strategy.experimental_distribute_dataset(training.dataset()):
        training.step(model, train_step(*batch))
    training.finish(model, agrees=checked["agrees"], first_step=checked)


def flat(model):
    """Return all trainable weights as one float64 vector."""
    return np.concatenate([np.ravel(weight.numpy()) for weight in model.trainable_variables]).astype(np.float64)


if __name__ == "__main__":
    run(main, config)
