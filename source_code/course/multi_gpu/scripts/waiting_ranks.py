"""A Horovod training in which ranks wait for one another, right or with one mistake in it.

    ddl run --workers 2 waiting_ranks.py                     # the correct script
    ddl run --workers 2 waiting_ranks.py --case uneven       # rank 0 takes fewer steps than the others
    ddl run --workers 2 waiting_ranks.py --case rank-0-only  # only rank 0 averages the loss
    ddl run --workers 2 waiting_ranks.py --case raises       # the last rank raises an error

Every rank fits one weight to points of its own.
"""

from course.training.options import SEED, Integer, parser, run

CASES = ("none", "uneven", "rank-0-only", "raises")


def parse_args(arguments=None):
    ours = parser(__doc__)
    ours.add_argument("--case", default="none", choices=CASES)
    ours.add_argument("--steps", type=Integer(), default=20)
    ours.add_argument("--seed", type=SEED, default=0)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to refuse wrong options at once

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.training.training_log import Writer


@tf.function(autograph=False)
def average_gradient(gradient):
    return hvd.allreduce(gradient, name="gradient")


@tf.function(autograph=False)
def average_loss(loss):
    return hvd.allreduce(loss, name="loss")


def main(config):
    hvd.init()
    rank, last = hvd.rank(), hvd.size() - 1
    writer, draw = Writer(rank == 0), np.random.default_rng([config.seed, rank])
    steps = config.steps // 2 if config.case == "uneven" and rank == 0 else config.steps
    writer.event("start", steps=config.steps, world=hvd.size())
    weight = 0.0
    for step in range(steps):
        x = draw.normal(size=32)
        if config.case == "raises" and rank == last and step == config.steps // 2:
            raise ValueError("this rank cannot read its data")
        gradient = tf.constant(np.mean(-2 * x * (3 * x - weight * x)))
        weight -= 0.1 * float(average_gradient(gradient))
        loss = tf.constant(np.mean((3 * x - weight * x) ** 2))
        if config.case != "rank-0-only" or rank == 0:
            loss = average_loss(loss)
        writer.event("step", step=step + 1, loss=float(loss))
    writer.result(config=vars(config), ranks=hvd.size(), weight=weight, seed=config.seed)


if __name__ == "__main__":
    run(main, config)
