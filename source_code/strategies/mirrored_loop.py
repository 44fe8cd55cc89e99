"""Train the course's network on all devices of one machine, with a custom loop.

    ddl run --workers 1 strategies/mirrored_loop.py --epochs 2
    python source_code/strategies/mirrored_loop.py --steps 20 --replicas 4

It runs in one process. Each device runs the same step on its part of the batch, and the replicas' gradients are summed,
so each replica divides its loss by the size of the whole batch.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__, replicas=2)  # before the slow imports, to refuse wrong options at once

import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment, losses_and_hits


def main(config):
    experiment = Experiment(config)
    strategy = tf.distribute.MirroredStrategy(experiment.devices())
    dataset = strategy.experimental_distribute_dataset(experiment.dataset())

    # Variables are created in the strategy's scope: each replica gets a copy.
    with strategy.scope():
        model = experiment.model()
        optimizer = tf.keras.optimizers.SGD(experiment.rate(experiment.global_batch), MOMENTUM)

    @tf.function(autograph=False)  # no branch or loop here depends on a tensor
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            losses, hits = losses_and_hits(labels, model(images, training=True))
            loss = tf.reduce_sum(losses) / experiment.global_batch
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return tf.stack([loss, tf.reduce_sum(hits) / experiment.global_batch])

    @tf.function(autograph=False)
    def everywhere(images, labels):
        figures = strategy.run(train_step, args=(images, labels))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, figures, axis=None)

    experiment.start()
    for images, labels in dataset:
        experiment.step(model, everywhere(images, labels))
    experiment.finish(model)


if __name__ == "__main__":
    main(config)
