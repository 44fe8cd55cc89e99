"""Time Horovod's reduce-scatter against an all-to-all with a mean of one's own, and all-reduces before and after it.

    .venv/bin/python benchmarks/reduce_scatter.py      # two ranks, half a minute

Lesson 6 shares out gradients by `course.sharding.communicator.World.reduce_scatter`, which is the second of these.
"""

import statistics
import sys
import time
from pathlib import Path

ROUNDS, VALUES = 30, 2**20  # 4 MiB


def main():
    """Run on each rank: time all of them in turns, and an all-reduce in each round before and after."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    from course.sharding.communicator import World
    from ddl.records.recorder import Recorder

    world, values, times = World(), tf.random.normal([VALUES]), {}

    def timed(name, act):
        hvd.allreduce(tf.zeros([1]), name="ready")  # so that no rank's start is waited for
        start = time.perf_counter()
        act()
        times.setdefault(name, []).append(time.perf_counter() - start)

    for _ in range(ROUNDS):  # before Horovod's own has ever been called
        timed("all-reduce", lambda: hvd.allreduce(values, name="values"))
        timed("all-to-all and a mean", lambda: world.reduce_scatter(values, "parts"))
    for _ in range(ROUNDS):
        timed("hvd.reducescatter", lambda: hvd.reducescatter(values, name="scattered"))
        timed("all-reduce, afterwards", lambda: hvd.allreduce(values, name="values"))
        timed("all-to-all and a mean, afterwards", lambda: world.reduce_scatter(values, "parts"))
    if world.rank == 0:
        Recorder().result({"milliseconds": {name: 1000 * statistics.median(taken) for name, taken in times.items()}})


if __name__ == "__main__":
    if "--rank" in sys.argv:
        main()
    else:
        from ddl import launch

        for workers in (2, 4):
            run = launch(Path(__file__), rank=True, workers=workers, threads=1, oversubscribe=workers > 2)
            for name, milliseconds in run.result["milliseconds"].items():
                print(f"{workers} ranks, 4 MiB: {name}: {milliseconds:.1f} ms")
