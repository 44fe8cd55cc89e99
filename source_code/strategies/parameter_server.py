"""Train the course's network with weights on a parameter server and workers that don't wait.

    ddl run --workers 2 --cluster parameter_server strategies/parameter_server.py --epochs 2

Every process runs this file; TF_CONFIG names its role. The coordinator (`chief`) sends each batch to the next
free worker. That worker reads the weights from the parameter server, computes a gradient and applies it there without
waiting for the others, so its gradient may be based on old weights. The script counts how many updates late it is. An
update uses one worker's batch, so the number of updates and samples is the same as in the other strategies.
"""

from course.training import options

if __name__ == "__main__":
    config = options.strategy(__doc__)  # before the slow imports, to refuse wrong options at once

from collections import deque

import numpy as np
import tensorflow as tf

from course.training.strategy import MOMENTUM, Experiment, losses_and_hits
from ddl import cluster


def main(config):
    task = cluster.await_all()
    if task.type != "chief":
        cluster.serve(task)  # does what the coordinator says, until it is done
        return
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    experiment = Experiment(config, ranks=len(task.workers), splits=False)
    dataset = experiment.dataset()

    # Variables are created in the strategy's scope: the parameter server holds them.
    with strategy.scope():
        model = experiment.model()
        optimizer = tf.keras.optimizers.SGD(experiment.rate(experiment.global_batch), MOMENTUM)
        updates = tf.Variable(0, dtype=tf.int32, trainable=False)
    optimizer.build(model.trainable_variables)

    @tf.function
    def train_step(images, labels):
        before = updates.read_value()
        with tf.control_dependencies([before]):  # only then are the weights read
            with tf.GradientTape() as tape:
                losses, hits = losses_and_hits(labels, model(images, training=True))
                loss = tf.reduce_mean(losses)
            gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        # A read waits for the writes before it; then this update counts, and is told its number.
        written = [weight.read_value() for weight in model.trainable_variables]
        with tf.control_dependencies(written):
            number = tf.raw_ops.ResourceCountUpTo(resource=updates.handle, limit=tf.int32.max, T=tf.int32)
        return tf.stack([loss, tf.reduce_mean(hits)]), number - before

    @tf.function
    def on_a_worker(images, labels):
        return strategy.run(train_step, args=(images, labels))

    late, under_way = [], deque()
    experiment.start()
    for handed_out, (images, labels) in enumerate(dataset, start=1):
        # From here, so that each sample is used once: a worker's own data set would have them all.
        under_way.append(coordinator.schedule(on_a_worker, args=(images, labels)))
        # A second batch for each worker waits. Before an evaluation all are waited for.
        while len(under_way) > (0 if experiment.epoch_ends(handed_out) else 2 * len(task.workers)):
            figures, others = under_way.popleft().fetch()
            late.append(others)
            experiment.step(model, figures)
    experiment.finish(model, staleness=np.bincount(late).tolist())
    cluster.dismiss()


if __name__ == "__main__":
    main(config)
