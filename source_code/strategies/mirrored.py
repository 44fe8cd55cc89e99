"""Train the course's network on all devices of one machine, with Keras' Model.fit.

    ddl run --workers 1 strategies/mirrored.py --epochs 2
    python source_code/strategies/mirrored.py --steps 20 --replicas 4

It runs in one process. Each device has a replica of the model and gets a part of each batch. The gradients are summed,
and every replica makes the same update.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__, replicas=2)  # before the slow imports, to refuse wrong options at once

import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment


def main(config):
    experiment = Experiment(config)
    strategy = tf.distribute.MirroredStrategy(experiment.devices())

    # Variables are created in the strategy's scope: each replica gets a copy.
    with strategy.scope():
        model = experiment.model()
        model.compile(
            optimizer=tf.keras.optimizers.SGD(experiment.rate(experiment.global_batch), MOMENTUM),
            loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    model.fit(
        experiment.dataset(),
        epochs=experiment.epochs,
        steps_per_epoch=experiment.steps_per_epoch,
        callbacks=[experiment.callback(model)],
        verbose=0,
    )
    experiment.finish(model)


if __name__ == "__main__":
    main(config)
