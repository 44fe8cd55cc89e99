"""Train the course's network on one device, with a custom loop.

    ddl run --workers 1 strategies/loop.py --epochs 2
    python source_code/strategies/loop.py --steps 20          # no run folder

This spells out what Model.fit does in single.py: the same updates, in code that you can change.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__)  # before the slow imports, to refuse wrong options at once

import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment, losses_and_hits


def main(config):
    experiment = Experiment(config)
    dataset = experiment.dataset()

    model = experiment.model()
    optimizer = tf.keras.optimizers.SGD(experiment.rate(experiment.global_batch), MOMENTUM)

    @tf.function(autograph=False)  # no branch or loop here depends on a tensor
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            losses, hits = losses_and_hits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return tf.stack([loss, tf.reduce_mean(hits)])

    experiment.start()
    for images, labels in dataset:
        experiment.step(model, train_step(images, labels))
    experiment.finish(model)


if __name__ == "__main__":
    main(config)
