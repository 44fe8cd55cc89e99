"""Train the course's network on house numbers, with a training step from another file.

    ddl run --workers 1 svhn_loop.py --loop my_loop.py --epochs 4
    python source_code/course/multi_gpu/scripts/svhn_loop.py --loop my_loop.py --replicas 2 --steps 100

The file must define ``make_step(strategy, model, optimizer, global_batch)``: it returns a function of a distributed
batch (normalized images, labels) that takes one training step on all replicas and returns the mean loss over the global
batch.

The data are SVHN (`ddl data fetch svhn`), or generated images of the same form.
"""

from pathlib import Path

from course.training.options import SEED, Integer, Number, add_data, parser, run, split_evenly


def parse_args(arguments=None):
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
    config = parse_args()  # before the slow imports, to report wrong options at once

import tensorflow as tf

from course.multi_gpu.loop_harness import step_maker
from course.training.strategy import Experiment, make_evaluation


class HouseNumbers(Experiment):
    """The strategies' training, on house numbers, by a step that returns the loss alone."""

    prefer = "svhn"

    def rate(self, batch):
        """Return Adam's rate, which does not depend on the batch."""
        return self.config.learning_rate

    def step(self, model, loss):
        """Count a finished step; at the end of an epoch, evaluate on as many training as test images, and on those."""
        self._count(model, loss)
        if self.epoch_ends(self._done):
            seen = slice(0, self.data.test_samples)
            with self._log.paused():
                figures = self._on(model, self.data.train_images[seen], self.data.train_labels[seen])
            self._write(model, *figures)

    def _evaluation(self):
        self._on = make_evaluation(self.model())
        return lambda model: self._on(model, self.data.test_images, self.data.test_labels)


def main(config):
    make_step = step_maker(config.loop)
    training = HouseNumbers(config)
    strategy = tf.distribute.MirroredStrategy(training.devices())
    # Create everything with variables in the strategy's scope, so that each replica gets them.
    with strategy.scope():
        model = training.model()
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)
    train_step = make_step(strategy, model, optimizer, config.global_batch)
    training.start()
    for batch in strategy.experimental_distribute_dataset(training.dataset()):
        training.step(model, train_step(*batch))
    training.finish(model)


if __name__ == "__main__":
    run(main, config)
