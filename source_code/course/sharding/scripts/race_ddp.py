"""Race variants of code to average gradients during a backward pass: the classes of a file, in turns, in one run.

    ddl run --workers 2 race_ddp.py --file my_ddp.py --classes Naive Flat Bucketed
    horovodrun --gloo -np 2 python source_code/course/sharding/scripts/race_ddp.py --file my_ddp.py

A class is made with the ranks and a bucket's size, gets each layer's gradient as soon as it is computed
(``ready(name, gradient)``), and returns all means (``finish()``).
"""

from pathlib import Path

from course.training.options import Integer, parser, run


def parse_args(arguments=None):
    ours = parser(__doc__)
    add = ours.add_argument
    add("--file", type=Path, required=True)
    add("--classes", nargs="+", default=["Naive", "Flat", "Bucketed"])
    add("--layers", type=Integer(), default=12)
    add("--width", type=Integer(8, 4096), default=512, help="of a layer: it has two tensors, of width² and width")
    add("--tokens", type=Integer(), default=256, help="per rank")
    add("--bucket", type=Integer(), default=2**20, help="values in a bucket")
    add("--repeats", type=Integer(), default=7)
    return ours.parse_args(arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import time

import numpy as np
import tensorflow as tf

from course.sharding.communicator import Ranks, World
from course.sharding.reader import defined
from course.training.training_log import Writer


def main(config):
    world = World()
    writer = Writer(world.rank == 0)
    classes = dict(zip(config.classes, defined(config.file, config.classes), strict=True))
    x = tf.random.normal([config.tokens, config.width])
    weights = tf.random.normal([config.width, config.width])
    results = {name: {"seconds": [], "sent_bytes": 0, "messages": 0} for name in classes}
    writer.event("start", steps=config.repeats, world=world.size)
    for number in range(config.repeats + 1):  # in turns; the first is a warm-up
        for name, exchange in classes.items():
            ranks = Ranks(world)
            ranks.barrier()
            sent, start = world.sent, time.perf_counter()
            computed = backward(config, exchange(ranks, config.bucket), x, weights, start)
            seconds = time.perf_counter() - start
            spans = [(begin - start, end - start) for begin, end in ranks.spans]
            found = results[name] | {"sent_bytes": 4 * (world.sent - sent), "messages": len(spans)}
            found |= {"computation": computed, "communication": spans}  # of the last repeat
            found["seconds"] = [*found["seconds"], seconds] if number else []
            results[name] = found
        writer.event("step", step=number)
    for name, found in results.items():
        median = 1e3 * np.median(found["seconds"])
        writer.print(f"{name}: {median:.1f} ms, {found['messages']} messages of {found['sent_bytes']:,} bytes in all")
    writer.result(config={**vars(config), "file": str(config.file)}, ranks=world.size, variants=results)


def backward(config, exchange, x, weights, start):
    """Compute all layers' gradients, hand them in, and return the (begin, end) of each layer's computation."""
    spans, back = [], x
    for layer in reversed(range(config.layers)):
        begin = time.perf_counter()
        gradient = tf.matmul(x, back, transpose_a=True).numpy().ravel()
        bias = tf.reduce_sum(back, 0).numpy()
        back = tf.matmul(back, weights, transpose_b=True) / config.width**0.5
        spans.append((begin - start, time.perf_counter() - start))
        exchange.ready(f"bias {layer}", bias)
        exchange.ready(f"weights {layer}", gradient)
    means = exchange.finish()
    assert len(means) == 2 * config.layers, f"finish() returned {len(means)} gradients of {2 * config.layers}"
    return spans


if __name__ == "__main__":
    run(main, config)
