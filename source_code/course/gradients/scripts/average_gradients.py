"""Train one weight on several workers, and record every gradient and the average.

    ddl run --workers 2 average_gradients.py --steps 20
    horovodrun --gloo -np 2 python source_code/course/gradients/scripts/average_gradients.py

The data are the generated points of lesson 1 (course/gradients/descent.py); the ranks divide them. Under `ddl run`,
rank 0 writes each step to events.jsonl, and the times of all-reduces of several sizes to result.json.
"""

from course.training.options import SEED, Integer, Number, parser, run


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--points", type=Integer(), default=64, help="in the data set, of all ranks together")
    add("--noise", type=Number(0), default=1.5, help="standard deviation of y around the line y = x")
    add("--seed", type=SEED, default=0, help="of the data set")
    add("--weight", type=Number(), default=0.0, help="the weight to begin with")
    add("--learning-rate", type=Number(above=0), default=0.02)
    add("--steps", type=Integer(), default=20)
    size = Integer(most=2**20)
    add("--message-kib", type=size, nargs="*", default=[4, 64, 1024, 16384], help="sizes of the all-reduces to time")
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time

import horovod.tensorflow as hvd
import tensorflow as tf

from course.gradients.descent import generated
from course.training.gpu import pin_gpu
from course.training.training_log import Writer
from ddl.errors import InputError

REPEATS = 40  # repeats of each timed all-reduce; the fastest is the least disturbed


def main(config):
    # Horovod: initialize, and pin each rank to one GPU, where there are any.
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    pin_gpu()

    # Horovod: shard. A rank without a point would have no gradient.
    if config.points < ranks:
        raise InputError(f"--points {config.points} is too few for {ranks} ranks: each needs at least one")
    x, y = generated(config.points, config.noise, config.seed)[rank::ranks].T

    w = tf.Variable(config.weight, dtype=tf.float64)
    # Horovod: write on rank 0 only.
    writer = Writer(rank == 0)
    writer.event("start", steps=config.steps, world=ranks)
    for step in range(1, config.steps + 1):
        before = float(w)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - w * x))
        gradient = tape.gradient(loss, w)

        # Horovod: average. Each rank's gradient has equal weight, regardless of its number of points.
        average = hvd.allreduce(gradient, op=hvd.Average, name="gradient")
        gradients = hvd.allgather(tf.reshape(gradient, [1]), name="gradients").numpy().tolist()

        # The same average on every rank, so the same step and the same weight.
        w.assign_sub(config.learning_rate * average)
        writer.event("step", step=step, w=before, gradients=gradients, average=float(average), after=float(w))

    weights = hvd.allgather(tf.reshape(w, [1]), name="weights").numpy().tolist()
    measured = [(1024 * kib, all_reduce_seconds(1024 * kib)) for kib in config.message_kib]
    writer.print(f"{ranks} ranks, {config.steps} steps: the weight is {weights[0]:.6f}")
    writer.result(config=vars(config), ranks=ranks, weights=weights, all_reduce_seconds=measured)


def all_reduce_seconds(size_bytes):
    """Return the shortest time of an all-reduce of that size on this rank."""
    values = tf.ones([size_bytes // 4])
    taken = []
    for _ in range(REPEATS):
        hvd.allreduce(tf.zeros([1]), name="ready")  # barrier, to exclude waiting for a rank's start
        start = time.perf_counter()
        hvd.allreduce(values, op=hvd.Sum, name=f"timed.{size_bytes}").numpy()
        taken.append(time.perf_counter() - start)
    return min(taken)


if __name__ == "__main__":
    run(main, config)
