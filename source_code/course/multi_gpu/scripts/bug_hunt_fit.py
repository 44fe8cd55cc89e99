"""The bug hunt's eighth case: Keras' own `fit` and Horovod's optimizer, on Keras 2 or on Keras 3.

    ddl run --workers 2 bug_hunt_fit.py              # on Keras 2, for which Horovod 0.28.1 was written
    ddl run --workers 2 bug_hunt_fit.py --keras 3    # the same script on Keras 3 (`make setup STACK=next`)

It trains on the bug hunt's points, and each rank writes down what it saw in steps-<k>.jsonl, as bug_hunt.py does.
`fit` does not hand out the gradients: "update" is the checksum of the change of the rank's weights. All ranks draw
the same first weights from one seed, as Horovod cannot broadcast the variables of Keras 3.
"""

import os
from importlib import metadata

from course.training.options import SEED, Integer, Number, parser
from ddl.records import stack


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--keras", type=Integer(2), choices=(2, 3), default=2)
    add("--steps", type=Integer(), default=20)
    add("--batch", type=Integer(), default=32, help="samples of each rank in a step")
    add("--learning-rate", type=Number(above=0), default=0.05, help="of one rank")
    add("--seed", type=SEED, default=0)
    config = ours.parse_args(arguments)
    if config.keras == 3 and stack.name() == "default":
        ours.error("--keras 3: TensorFlow 2.15 has Keras 2 only; `make setup STACK=next` installs one with Keras 3")
    return config


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once
    if config.keras == 3:
        os.environ["TF_USE_LEGACY_KERAS"] = "0"  # before importing TensorFlow; the rest of the course does not allow it

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from bug_hunt import CLASSES, FEATURES, SAMPLES, TEST_SAMPLES, points

from course.data import Order, shard
from course.training.rank_log import StepLog
from course.training.training_log import Writer
from ddl.records.checksums import checksum


class Watch(tf.keras.callbacks.Callback):
    """Callback that records each step's samples, rate, weight change and weights, and collects losses."""

    def __init__(self, step_log, writer, samples):
        super().__init__()
        self.step_log, self.writer, self.samples, self.losses = step_log, writer, samples, []

    def on_train_begin(self, logs=None):
        self.before = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        after = self.model.get_weights()
        self.step_log.tell(
            "step",
            step=batch + 1,
            samples=self.samples[batch],
            rate=float(np.asarray(self.model.optimizer.learning_rate)),
            update=checksum([new - old for new, old in zip(after, self.before)]),
            weights=checksum(after),
        )
        self.before = after
        self.losses.append(float(logs["loss"]))  # the mean of this rank's steps so far
        self.writer.event("step", step=batch + 1, loss=self.losses[-1])


def main(config):
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    tf.keras.utils.set_random_seed(config.seed)
    model = tf.keras.Sequential([tf.keras.layers.Dense(32, "relu"), tf.keras.layers.Dense(CLASSES)])
    model.build((None, FEATURES))
    model.compile(
        hvd.DistributedOptimizer(tf.keras.optimizers.SGD(config.learning_rate * ranks)),
        tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    (x, y), test = points(SAMPLES, config.seed), points(TEST_SAMPLES, config.seed + 1)
    order = Order(SAMPLES, config.batch * ranks, config.seed)
    mine = [shard(batch, rank, ranks) for _, batch in order.batches(0, config.steps)]
    numbers = np.concatenate(mine)
    step_log, writer = StepLog(rank), Writer(rank == 0)
    start = dict(rank=rank, ranks=ranks, batch=config.batch, rate_of_one_rank=config.learning_rate)
    step_log.tell("begin", **start, weights=checksum(model.get_weights()))
    writer.event("start", steps=config.steps, world=ranks)
    watch = Watch(step_log, writer, mine)
    model.fit(x[numbers], y[numbers], config.batch, shuffle=False, verbose=0, callbacks=[watch])
    wrote = step_log.keep_weights(model.get_weights()) if rank == 0 else None
    step_log.tell("end", samples_counted=len(numbers), wrote=wrote)
    if rank == 0:
        finish(writer, config, ranks, watch.losses, model, test)


def finish(writer, config, ranks, losses, model, test):
    """Write the result of rank 0's own model, and print a summary."""
    accuracy = float(np.mean(np.argmax(model(test[0]), 1) == test[1]))
    package = tf.keras.Model.__module__.partition(".")[0]  # keras, or tf_keras
    version = metadata.version(package.replace("_", "-"))
    writer.print(
        f"{ranks} ranks, {config.steps} steps on Keras {version}: rank 0's loss fell from {losses[0]:.3f} to a mean of "
        f"{losses[-1]:.3f}, held-out accuracy {accuracy:.1%}"
    )
    writer.result(
        config=vars(config),
        keras=version,
        ranks=ranks,
        seed=config.seed,
        steps=config.steps,
        learning_rate=config.learning_rate * ranks,
        first_loss=losses[0],
        loss=losses[-1],
        test_accuracy=accuracy,
        data={"name": "points", "form": "generated", "train_samples": SAMPLES},
    )


if __name__ == "__main__":
    main(config)
