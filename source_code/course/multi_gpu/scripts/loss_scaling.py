"""Scale the loss of one MirroredStrategy step in several ways, right and wrong.

    ddl run --workers 1 loss_scaling.py
    python source_code/course/multi_gpu/scripts/loss_scaling.py --replicas 4     # no run folder

Each variant's gradient is compared with one device's for the same batch, with the mean loss over the batch. Replicas'
gradients are summed, so each replica must divide by the actual size of the whole batch, even if the last batch is
short. `result.json` has the results.
"""

from course.training.options import SEED, Integer, parser, run, split_evenly

EACH = 3  # samples of each replica in a short batch, but the last replica has one less


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--data-set", default="auto", choices=("auto", "cifar10", "synthetic"))
    add("--replicas", type=Integer(), default=2)
    add("--global-batch", type=Integer(), default=64)
    add("--seed", type=SEED, default=0, help="of weights and samples")
    config = ours.parse_args(arguments)
    split_evenly(ours, config)
    if config.global_batch < EACH * config.replicas:
        ours.error(f"--global-batch {config.global_batch}: each replica needs at least {EACH} samples")
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import numpy as np
import tensorflow as tf

from course.data import Order, load
from course.data.augment import normalize
from course.training import models
from course.training.journal import Writer
from course.training.precision import set_precision
from course.training.strategy import devices_for, losses_and_hits

L2 = 0.1  # factor of the weights' penalty
# Name, variant, and whether the batch is short.
CASES = (
    ("sum over the global batch", "sum(losses) / global_batch", "whole"),
    ("mean of each replica", "mean(losses)", "whole"),
    ("mean of the replicas' means", "mean(losses) / replicas", "whole"),
    ("mean of each replica, short batch", "mean(losses)", "short"),
    ("mean of the replicas' means, short batch", "mean(losses) / replicas", "short"),
    ("sum over what is there, short batch", "sum(losses) / samples_there", "short"),
    ("sum over the nominal batch, short batch", "sum(losses) / global_batch", "short"),
    ("L2 counted once", "sum(losses) / global_batch + scale_regularization_loss(l2)", "whole"),
    ("L2 counted on every replica", "sum(losses) / global_batch + l2", "whole"),
)


def main(config):
    tf.get_logger().setLevel("ERROR")  # it would print advice at each step
    set_precision("float32")  # not TF32
    devices, note = devices_for(config.replicas)
    strategy = tf.distribute.MirroredStrategy(devices)
    data = load(config.data_set, train_samples=config.global_batch, test_samples=1)
    numbers = Order(data.train_samples, config.global_batch, config.seed).epoch(0)[0]
    samples = {"whole": config.global_batch, "short": EACH * config.replicas - 1}
    batches = {
        name: (normalize(data.train_images[numbers[:size]]), data.train_labels[numbers[:size]])
        for name, size in samples.items()
    }
    with strategy.scope():
        model = models.build("cnn", seed=config.seed, classes=len(data.class_names))

    sizes, found = {}, []
    for name, how, batch in CASES:
        # Like Keras: global batches, the last one with the remaining samples.
        dataset = tf.data.Dataset.from_tensor_slices(batches[batch]).batch(config.global_batch)
        parts = next(iter(strategy.experimental_distribute_dataset(dataset)))
        sizes.setdefault(batch, [len(each) for each in strategy.experimental_local_results(parts[1])])
        ours = gradient_of_replicas(strategy, model, parts, how, samples[batch], config)
        right = gradient_of_one_device(model, batches[batch], L2 if how.endswith(("l2", "l2)")) else 0.0)
        error, ratio = (float(np.linalg.norm(each) / np.linalg.norm(right)) for each in (ours - right, ours))
        found.append({"name": name, "how": how, "batch": batch, "relative_error": error, "ratio": ratio})
        print(f"{name:42} off by {error:.1e}, {ratio:.3f} times as long", flush=True)

    Writer(True).result(
        config=vars(config),
        data=data.describe(),
        ranks=1,
        replicas=config.replicas,
        devices=devices,
        note=note,
        global_batch=config.global_batch,
        samples_per_replica=sizes,
        cases=found,
        seed=config.seed,
    )


def gradient(model, images, labels, loss_of):
    """Return the gradients of a loss, a function of the samples' losses and half the sum of all squared weights."""
    with tf.GradientTape() as tape:
        losses, _ = losses_and_hits(labels, model(images, training=True))
        loss = loss_of(losses, tf.add_n([tf.nn.l2_loss(weight) for weight in model.trainable_variables]))
    return tape.gradient(loss, model.trainable_variables)


def gradient_of_one_device(model, batch, l2):
    """Return the reference gradient, of the mean over the batch, as one vector."""
    return flat(gradient(model, *batch, lambda losses, penalty: tf.reduce_mean(losses) + l2 * penalty))


def gradient_of_replicas(strategy, model, parts, how, there, config):
    """Return the sum of the replicas' gradients, as one vector; `there` is the number of samples in the whole batch."""

    def loss_of(losses, penalty):
        total, mean, l2 = tf.reduce_sum(losses), tf.reduce_mean(losses), L2 * penalty
        over_batch = total / config.global_batch
        return {
            "sum(losses) / global_batch": over_batch,
            "sum(losses) / samples_there": total / there,
            "mean(losses)": mean,
            "mean(losses) / replicas": mean / config.replicas,
            "sum(losses) / global_batch + scale_regularization_loss(l2)": (
                over_batch + tf.nn.scale_regularization_loss(l2)
            ),
            "sum(losses) / global_batch + l2": over_batch + l2,
        }[how]

    each = strategy.run(gradient, args=(model, *parts, loss_of))
    return flat(strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None))


def flat(gradients):
    """Return all gradients as one float64 vector, to compare without further rounding."""
    return np.concatenate([np.asarray(each, np.float64).ravel() for each in gradients])


if __name__ == "__main__":
    run(main, config)
