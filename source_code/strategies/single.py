"""Train the course's network on one device, with Keras' Model.fit.

    ddl run --workers 1 strategies/single.py --epochs 2
    python source_code/strategies/single.py --steps 20        # no run folder

The other files in this folder train the same network on the same images in the same order, each with a different
strategy; `course.training.strategy` is their shared part.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__)  # before the slow imports, to refuse wrong options at once

import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment


def main(config):
    experiment = Experiment(config)

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
