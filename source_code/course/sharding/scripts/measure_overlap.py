"""Measure how long the gradients of a layer take to compute, and to average over ranks: in turn, and at once.

ddl run --workers 2 measure_overlap.py --width 1024 --tokens 32 128 512
horovodrun --gloo -np 2 python source_code/course/sharding/scripts/measure_overlap.py
"""

from course.training.options import Integer, parser, run


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--width", type=Integer(8, 8192), default=1024, help="of the layer: it has width x width weights")
    add("--tokens", type=Integer(), nargs="+", default=[32, 64, 128, 256, 512, 1024], help="per rank")
    add("--repeats", type=Integer(), default=7)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time

import numpy as np
import tensorflow as tf

from course.sharding.communicator import Ranks, World
from course.training.training_log import Writer


def main(config):
    world = World()
    ranks, writer = Ranks(world), Writer(world.rank == 0)
    weights = tf.random.normal([config.width, config.width])
    gradient = weights.numpy()
    writer.event("start", steps=len(config.tokens), world=world.size)
    rows, speed = {}, 0.0
    for number, tokens in enumerate(config.tokens, 1):
        x = tf.random.normal([tokens, config.width])

        def compute(x=x):
            return tf.matmul(x, weights, transpose_b=True), tf.matmul(x, x, transpose_a=True).numpy()

        def at_once(compute=compute):
            arriving = ranks.start(gradient)
            compute()
            arriving.result()

        variants = {
            "communication": lambda: ranks.start(gradient).result(),
            "computation": compute,
            "one after the other": lambda compute=compute: (compute(), ranks.start(gradient).result()),
            "at the same time": at_once,
        }
        times = {variant: [] for variant in variants}
        for _ in range(config.repeats + 1):  # in turns; the first is a warm-up
            for variant, act in variants.items():
                ranks.barrier()
                start = time.perf_counter()
                act()
                times[variant].append(time.perf_counter() - start)
        rows[tokens] = {variant: 1e3 * float(np.median(seconds[1:])) for variant, seconds in times.items()}
        speed = max(speed, 4e3 * tokens * config.width**2 / rows[tokens]["computation"])
        writer.event("step", step=number)
        writer.print(f"{tokens} tokens: " + ", ".join(f"{variant} {ms:.2f} ms" for variant, ms in rows[tokens].items()))
    sent_bytes = 4 * 2 * (world.size - 1) * world.per_rank(config.width**2)
    fastest = min(row["communication"] for row in rows.values())
    writer.result(
        config=vars(config), ranks=world.size, ms_by_tokens=rows, operations_per_s=speed,
        bytes_per_s=1e3 * sent_bytes / fastest,
    )  # fmt: skip


if __name__ == "__main__":
    run(main, config)
