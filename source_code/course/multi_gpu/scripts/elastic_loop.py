"""Elastic training loop for Horovod: ranks can join and leave.

    ddl run --elastic --workers 2 elastic_loop.py --steps 400 --pause-s 0.2
    horovodrun --min-np 1 --max-np 2 --host-discovery-script ./discover_hosts.sh -np 1 python elastic_loop.py

While it runs, edit the discovery script (of the first line: discover_hosts.sh in the run's folder), or kill a rank. The
global batch, the order of samples and the learning rate don't depend on the number of ranks. The ranks commit at
intervals: if a rank is lost, the others resume from the last commit, and a new rank gets rank 0's state. Without `ddl
run` or horovodrun it trains on one rank.
"""

from course.training.options import SEED, Integer, Number, add_data, parser, run


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add_data(ours)
    add("--steps", type=Integer(), default=100)
    add("--commit-every", type=Integer(), default=10, metavar="STEPS", help="steps between commits")
    add("--global-batch", type=Integer(), default=96, help="samples per step over all ranks, divided evenly")
    add("--learning-rate", type=Number(above=0), default=0.02, metavar="RATE", help="of SGD with momentum")
    add("--pause-s", type=Number(0), default=0.0, metavar="SECONDS", help="pause in each step")
    add("--seed", type=SEED, default=0, help="of initial weights and order")
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time

import horovod.tensorflow as hvd
import tensorflow as tf

from course.data import Order, load, shard
from course.data.augment import normalize
from course.training import models
from course.training.gpu import pin_gpu
from course.training.strategy import losses_and_hits, make_evaluation
from course.training.training_log import TrainingLog


def main(config):
    """Train, and return what goes into result.json, on the rank that is rank 0 at the end."""
    hvd.init()
    pin_gpu()
    data = load(config.data_set, train_samples=config.train_samples, test_samples=config.test_samples)
    order = Order(data.train_samples, config.global_batch, config.seed)
    model = models.build("cnn", norm="group", seed=config.seed, classes=len(data.class_names))
    optimizer = tf.keras.optimizers.SGD(config.learning_rate, momentum=0.9)
    optimizer.build(model.trainable_variables)  # before creating the state, which broadcasts (#2652)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0, times=None, worlds=[])
    log = train(state, config, data, order)

    if hvd.rank():
        return None
    with log.paused():
        evaluate = make_evaluation(models.build("cnn", norm="group", seed=config.seed, classes=len(data.class_names)))
        loss, accuracy = evaluate(model, data.train_images[: data.test_samples], data.train_labels[: data.test_samples])
        test_loss, test_accuracy = evaluate(model, data.test_images, data.test_labels)
    figures = {"loss": loss, "accuracy": accuracy, "test_loss": test_loss, "test_accuracy": test_accuracy}
    log.evaluation(config.steps, **figures, learning_rate=config.learning_rate)
    return log.result(
        config=vars(config),
        model="cnn",
        data=data.describe(),
        ranks=hvd.size(),
        worlds=state.worlds,
        global_batch=config.global_batch,
        seed=config.seed,
        learning_rate=config.learning_rate,
    )


@hvd.elastic.run
def train(state, config, data, order):
    """Train from the state's step; return this rank's log.

    Horovod calls this again for each world, once all ranks have the same state: from the last commit if a rank was
    lost, otherwise the current one. `state.worlds` becomes a list of [first step, ranks].
    """
    if state.step < config.steps:
        state.worlds = [*(world for world in state.worlds if world[0] < state.step), [state.step, hvd.size()]]
    train_step = make_step(state.model, state.optimizer)
    log = TrainingLog(hvd.rank() == 0, config.steps, order.steps, config.global_batch, state=state.times)
    log.start(step=state.step, world=hvd.size(), data=data.describe())
    for _, batch in order.batches(state.step, config.steps):
        mine = shard(batch, hvd.rank(), hvd.size())
        loss = train_step(normalize(data.train_images[mine]), tf.constant(data.train_labels[mine]))
        time.sleep(config.pause_s)
        state.step += 1
        log.step(state.step, loss, config.learning_rate)
        if state.step % config.commit_every == 0:
            state.times = log.state()
            state.commit()  # raises HostsUpdatedInterrupt on all ranks if hosts were added or removed
    return log


def make_step(model, optimizer):
    """Return a function of images and labels that takes a step and returns the mean loss over all ranks.

    It is valid for one world, because its collective operations depend on the number of ranks.
    """

    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(losses_and_hits(labels, model(images, training=True))[0])
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return hvd.allreduce(loss)

    return step


if __name__ == "__main__":
    run(main, config)
