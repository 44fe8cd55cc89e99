"""Train the course's network in several processes with Horovod, in a custom loop.

    ddl run --workers 2 strategies/horovod_loop.py --epochs 2
    horovodrun --gloo -np 2 python source_code/strategies/horovod_loop.py --steps 20

Every process runs this file. Horovod averages the ranks' gradients, so each rank uses the mean loss over its part of
the batch.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__)  # before the slow imports, to refuse wrong options at once

import horovod.tensorflow as hvd
import tensorflow as tf

from course.training.horovod_utils import broadcast
from course.training.strategy import MOMENTUM, Experiment, losses_and_hits


def main(config):
    # 1, initialize: from here on this process knows its rank and how many there are.
    hvd.init()
    # 2, pin: each rank to one GPU, if there are any.
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:  # a scheduler may show each rank only its own, under number 0: hence the remainder
        mine = gpus[hvd.local_rank() % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)  # take memory as needed: two ranks may share a GPU
    # Only rank 0 evaluates and writes.
    experiment = Experiment(config, rank=hvd.rank(), ranks=hvd.size())
    # 3, shard: each rank takes its part of every batch.
    dataset = experiment.dataset(hvd.rank(), hvd.size())

    model = experiment.model()
    # 4, scale: the rate with the samples of all ranks.
    per_rank_batch = experiment.global_batch // hvd.size()
    optimizer = tf.keras.optimizers.SGD(experiment.rate(per_rank_batch * hvd.size()), MOMENTUM)

    @tf.function(autograph=False)  # no branch or loop here depends on a tensor
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            losses, hits = losses_and_hits(labels, model(images, training=True))
            loss = tf.reduce_mean(losses)
        # 5, wrap: the tape averages the gradients of all ranks.
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        # Metrics are averaged too: one rank's own would be of its part only.
        return hvd.allreduce(tf.stack([loss, tf.reduce_mean(hits)]), op=hvd.Average)

    # 6, broadcast: rank 0's weights and optimizer state, so that all ranks start from the same state.
    optimizer.build(model.trainable_variables)
    broadcast(model.variables + optimizer.variables)
    experiment.start()
    for images, labels in dataset:
        experiment.step(model, train_step(images, labels))
    experiment.finish(model)


if __name__ == "__main__":
    main(config)
