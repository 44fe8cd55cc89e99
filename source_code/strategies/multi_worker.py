"""Train the course's network in several processes, on any machines, with Keras' Model.fit.

    ddl run --workers 2 --cluster multi_worker strategies/multi_worker.py --epochs 2

Every process runs this file. TF_CONFIG says where all of them are and which one this is:

    TF_CONFIG='{"cluster": {"worker": ["host1:2222", "host2:2222"]},
                "task": {"type": "worker", "index": 0}}' python source_code/strategies/multi_worker.py
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__)  # before the slow imports, to refuse wrong options at once

import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment
from ddl import cluster


def main(config):
    task = cluster.read()
    experiment = Experiment(config, rank=task.index, ranks=len(task.workers))
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

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
