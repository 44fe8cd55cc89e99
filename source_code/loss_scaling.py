"""Scale the loss of one MirroredStrategy step in several ways, right and wrong.

    ddl run --workers 1 loss_scaling.py
    python source_code/loss_scaling.py --replicas 4     # no run folder

Every way's gradient is compared with that of one device for the same batch, whose loss is the mean
over the batch. Replicas' gradients are summed, so each replica has to divide by the size of the
whole batch: by what is really in it, also where the last batch of a data set is short.
`result.json` has what came out of each way.
"""

from ddl.training.options import SEED, Integer, Number, parser, split_evenly


def parse(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--data-set", default="auto", choices=("auto", "cifar10", "synthetic"))
    add("--replicas", type=Integer(), default=2)
    add("--global-batch", type=Integer(), default=64)
    add("--short-batch", type=Integer(), default=5, help="samples in the last, short batch")
    add("--l2", type=Number(0), default=0.1, help="factor of the weights' L2 penalty")
    add("--seed", type=SEED, default=0, help="of weights and samples")
    config = ours.parse_args(arguments)
    split_evenly(ours, config)
    most = -(-config.short_batch // config.replicas)  # what all replicas but the last one get
    if not most * (config.replicas - 1) < config.short_batch < config.global_batch:
        ours.error(
            f"--short-batch {config.short_batch}: fewer than {config.global_batch} are "
            f"needed, and enough that each of {config.replicas} replicas has samples"
        )
    return config


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ddl.data import Order, load
from ddl.data.augment import normalise
from ddl.errors import CourseError
from ddl.records.recorder import Recorder
from ddl.training import models
from ddl.training.journal import provenance
from ddl.training.strategy import devices_for, losses_and_hits


@dataclass(frozen=True)
class Case:
    """One way to scale the loss."""

    name: str
    how: str  # as an expression
    batch: str  # "whole", or "short": a last one with fewer samples
    loss: Callable  # of a replica's losses, the samples in the batch, and the L2 penalty
    penalty: bool = False  # whether the loss to reproduce has the L2 penalty


def cases(global_batch, replicas):
    """Return the ways to scale, with so many samples in a whole batch."""
    total, mean = tf.reduce_sum, tf.reduce_mean
    return (
        Case(
            "sum over the global batch",
            "sum(losses) / global_batch",
            "whole",
            lambda losses, there, penalty: total(losses) / global_batch,
        ),
        Case("mean of each replica", "mean(losses)", "whole", lambda losses, there, penalty: mean(losses)),
        Case(
            "mean of the replicas' means",
            "mean(losses) / replicas",
            "whole",
            lambda losses, there, penalty: mean(losses) / replicas,
        ),
        Case("mean of each replica, short batch", "mean(losses)", "short", lambda losses, there, penalty: mean(losses)),
        Case(
            "mean of the replicas' means, short batch",
            "mean(losses) / replicas",
            "short",
            lambda losses, there, penalty: mean(losses) / replicas,
        ),
        Case(
            "sum over what is there, short batch",
            "sum(losses) / samples_there",
            "short",
            lambda losses, there, penalty: total(losses) / there,
        ),
        Case(
            "sum over the nominal batch, short batch",
            "sum(losses) / global_batch",
            "short",
            lambda losses, there, penalty: total(losses) / global_batch,
        ),
        Case(
            "L2 counted once",
            "sum(losses) / global_batch + scale_regularization_loss(l2)",
            "whole",
            lambda losses, there, penalty: total(losses) / global_batch + tf.nn.scale_regularization_loss(penalty),
            True,
        ),
        Case(
            "L2 counted on every replica",
            "sum(losses) / global_batch + l2",
            "whole",
            lambda losses, there, penalty: total(losses) / global_batch + penalty,
            True,
        ),
    )


def main(config):
    tf.get_logger().setLevel("ERROR")  # at each step it would advise tracing
    # True float32: GPUs would round every factor to TF32's ten bits.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    devices, note = devices_for(config.replicas)
    strategy = tf.distribute.MirroredStrategy(devices)
    data = load(config.data_set, train_samples=config.global_batch, test_samples=1)
    numbers = Order(data.train_samples, config.global_batch, config.seed).epoch(0)[0]
    samples = {"whole": config.global_batch, "short": config.short_batch}
    batches = {
        name: (normalise(data.train_images[numbers[:size]]), data.train_labels[numbers[:size]])
        for name, size in samples.items()
    }

    with strategy.scope():
        model = models.build("cnn", seed=config.seed, classes=len(data.class_names))
    weights = model.trainable_variables

    def gradient(pictures, labels, loss_of):
        with tf.GradientTape() as tape:
            losses, _ = losses_and_hits(labels, model(pictures, training=True))
            penalty = config.l2 * tf.add_n([tf.nn.l2_loss(weight) for weight in weights])
            loss = loss_of(losses, penalty)
        return tape.gradient(loss, weights)

    def of_one_device(case):
        def loss_of(losses, penalty):
            return tf.reduce_mean(losses) + (penalty if case.penalty else 0.0)

        return flat(gradient(*batches[case.batch], loss_of))

    def of_replicas(case):
        # As Keras does it: batches of the global size, the last one with what is left.
        dataset = tf.data.Dataset.from_tensor_slices(batches[case.batch])
        parts = next(iter(strategy.experimental_distribute_dataset(dataset.batch(config.global_batch))))
        there = samples[case.batch]
        sizes.setdefault(case.batch, [len(each) for each in strategy.experimental_local_results(parts[1])])

        each = strategy.run(gradient, args=(*parts, lambda losses, penalty: case.loss(losses, there, penalty)))
        return flat(strategy.reduce(tf.distribute.ReduceOp.SUM, each, axis=None))

    sizes, found = {}, []
    for case in cases(config.global_batch, config.replicas):
        right, ours = of_one_device(case), of_replicas(case)
        found.append(
            {
                "name": case.name,
                "how": case.how,
                "batch": case.batch,
                "relative_error": float(np.linalg.norm(ours - right) / np.linalg.norm(right)),
                "ratio": float(np.linalg.norm(ours) / np.linalg.norm(right)),
            }
        )
        print("{name:42} off by {relative_error:.1e}, {ratio:.3f} times as long".format(**found[-1]), flush=True)

    Recorder().result(
        {
            **provenance(),
            "config": vars(config),
            "data": data.describe(),
            "ranks": 1,
            "replicas": config.replicas,
            "devices": devices,
            "note": note,
            "global_batch": config.global_batch,
            "samples_per_replica": sizes,
            "cases": found,
            "seed": config.seed,
        }
    )


def flat(gradients):
    """Return all gradients as one vector, float64: rounding must not add to what is compared."""
    return np.concatenate([np.asarray(each, np.float64).ravel() for each in gradients])


if __name__ == "__main__":
    try:
        main(config)
    except CourseError as error:
        sys.exit(f"loss_scaling.py: {error}")
