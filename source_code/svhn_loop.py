"""Train the course's network on house numbers with a loop of our own, on all devices of a machine.

    ddl run --workers 1 svhn_loop.py --epochs 4
    python source_code/svhn_loop.py --replicas 2 --train-samples 2000 --test-samples 500

One process under MirroredStrategy: a training step and a test step, both run by every replica on
its part of the batch; metrics that count over all replicas; the last batch of the test part, which
is shorter, counts as much as it has pictures. The data are SVHN (`ddl data fetch svhn`), or
generated pictures of the same form.
"""

import argparse
import os
import sys

import numpy as np
import tensorflow as tf

from ddl import models
from ddl.data import DataError, Order, load, shard
from ddl.data.augment import normalise
from ddl.journal import Journal
from ddl.machine import usable_cores
from ddl.way import devices_for

TEST_BATCH = 500


def parse(arguments=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data-set", default="auto", choices=("auto", "svhn", "synthetic"))
    add("--train-samples", type=int, metavar="N", help="train on a part (default: all)")
    add("--test-samples", type=int, metavar="N", help="evaluate on a part (default: all)")
    add("--replicas", type=int, default=2, help="GPUs, or logical devices where there are fewer")
    add("--epochs", type=int, default=2)
    add("--global-batch", type=int, default=64, help="samples in a step of all replicas together")
    add("--learning-rate", type=float, default=1e-3, metavar="RATE", help="of Adam")
    add("--seed", type=int, default=0, help="of initial weights and order")
    config = parser.parse_args(arguments)
    if min(config.epochs, config.replicas, config.global_batch) < 1:
        parser.error("--epochs, --replicas and --global-batch are 1 or more")
    return config


def main(arguments=None):
    """Train, and return what goes into result.json."""
    config = parse(arguments)
    devices, note = devices_for(config.replicas)
    strategy = tf.distribute.MirroredStrategy(devices)

    data = load(config.data_set, train_samples=config.train_samples,
                test_samples=config.test_samples, prefer="svhn")
    order = Order(data.train_samples, config.global_batch, config.seed)
    shard(np.empty(config.global_batch), 0, config.replicas)  # says so where it can't be split

    # What has variables is made in the strategy's scope, metrics too: each replica gets them.
    with strategy.scope():
        # The batch norm of each replica looks at its own part of the batch.
        model = models.build("cnn", norm="batch", seed=config.seed, classes=len(data.class_names))
        optimizer = tf.keras.optimizers.Adam(config.learning_rate)
        cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction=tf.keras.losses.Reduction.NONE)
        loss_mean = tf.keras.metrics.Mean()
        accuracy_mean = tf.keras.metrics.SparseCategoricalAccuracy()

    def train_step(pictures, labels):
        with tf.GradientTape() as tape:
            logits = model(normalise(pictures), training=True)
            losses = cross_entropy(labels, logits)
            # Replicas' gradients are summed: so each divides by the size of the global batch.
            loss = tf.nn.compute_average_loss(losses, global_batch_size=config.global_batch)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        loss_mean.update_state(losses)
        accuracy_mean.update_state(labels, logits)
        return loss

    def test_step(pictures, labels):
        logits = model(normalise(pictures), training=False)
        loss_mean.update_state(cross_entropy(labels, logits))  # of each picture: all weigh the same
        accuracy_mean.update_state(labels, logits)

    @tf.function
    def distributed_train_step(pictures, labels):
        losses = strategy.run(train_step, args=(pictures, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    @tf.function
    def distributed_test_step(pictures, labels):
        strategy.run(test_step, args=(pictures, labels))

    def means():
        """Return loss and accuracy since the last call, over all replicas."""
        values = float(loss_mean.result()), float(accuracy_mean.result())
        loss_mean.reset_state()
        accuracy_mean.reset_state()
        return values

    def distributed(numbers, images, labels):
        """Return a distributed data set of the batches with these sample numbers."""
        with tf.device("CPU:0"):  # pictures wait in the host's memory, not in a GPU's
            images, labels = tf.constant(images), tf.constant(labels)
        batches = numbers.map(lambda some: (tf.gather(images, some), tf.gather(labels, some)))
        return strategy.experimental_distribute_dataset(batches.prefetch(2))

    numbers = np.concatenate([order.epoch(epoch) for epoch in range(config.epochs)])
    training = iter(distributed(tf.data.Dataset.from_tensor_slices(numbers),
                                data.train_images, data.train_labels))
    testing = distributed(tf.data.Dataset.range(data.test_samples).batch(TEST_BATCH),
                          data.test_images, data.test_labels)

    journal = Journal(True, config.epochs * order.steps, order.steps, config.global_batch)
    for text in filter(None, [data.note, note]):
        journal.note(text)
    journal.start(world=1, per_rank_batch=config.global_batch, data=data.describe())
    for step in range(1, len(numbers) + 1):
        journal.step(step, distributed_train_step(*next(training)), config.learning_rate)
        if step % order.steps == 0:
            loss, accuracy = means()
            with journal.paused():
                for batch in testing:
                    distributed_test_step(*batch)
                test_loss, test_accuracy = means()
            journal.evaluation(step, loss=loss, accuracy=accuracy, test_loss=test_loss,
                               test_accuracy=test_accuracy, learning_rate=config.learning_rate)

    return journal.result(
        script=os.path.basename(sys.argv[0]),
        argv=sys.argv[1:] if arguments is None else list(arguments),
        config=vars(config),
        model="cnn",
        parameters=sum(int(np.prod(weight.shape)) for weight in model.trainable_variables),
        data=data.describe(),
        ranks=1,
        replicas=config.replicas,
        threads_per_rank=int(os.environ.get("TF_NUM_INTRAOP_THREADS") or usable_cores()),
        per_rank_batch=config.global_batch,
        global_batch=config.global_batch,
        seed=config.seed,
        learning_rate=config.learning_rate,
    )


if __name__ == "__main__":
    try:
        main()
    except DataError as error:
        sys.exit(f"svhn_loop.py: {error}")
