"""Benchmark of all-reduce, broadcast and all-gather, for message sizes from 4 B to 256 MiB.

    ddl run --workers 2 bench_allreduce.py
    ddl run --workers 2 bench_allreduce.py --operations all_reduce --sizes 4 4096 4194304
    ddl run --workers 2 --cluster multi_worker bench_allreduce.py
    ddl run --workers 8 bench_allreduce.py --nccl NCCL_ALGO=Ring NCCL_P2P_LEVEL=PHB

Under Horovod, it times Horovod's operations over Gloo, MPI or NCCL. In a tf.distribute cluster (--cluster
multi_worker), it times that library's collectives.

A barrier precedes each repetition, and its time is the slowest rank's. The first repetitions, which open connections
and build graphs, are discarded. Sizes are interleaved, so that other load on the machine affects all equally. As in
nccl-tests, the size is that of the result: each of N ranks contributes 1/N of an all-gather.
"""

from course.shared import bench
from course.training.options import run

OPERATIONS = ("all_reduce", "broadcast", "all_gather")


def parse_args(arguments=None):
    ours = bench.parser(__doc__)
    add = ours.add_argument
    add("--operations", nargs="+", choices=OPERATIONS, default=list(OPERATIONS))
    add("--nccl", nargs="+", metavar="NAME=VALUE", help="settings of NCCL, such as NCCL_ALGO=Ring")
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import os
import time

import tensorflow as tf

from course.shared.bench import BenchError, nccl_settings, refuse_what_does_not_fit, repeats, sizes, timing
from course.topology.collectives import Horovod, TFDistribute
from course.training.training_log import Writer
from ddl import cluster

TURNS = 3  # rounds for each size; each round's first repetition is discarded
SETTINGS = ("HOROVOD_GLOO_IFACE", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")


def main(config):
    to_measure = sizes(config)
    settings = nccl_settings(config.nccl)
    os.environ.update(settings)  # NCCL reads them on first use
    library = TFDistribute(config, task_here()) if os.environ.get("TF_CONFIG") else Horovod(config)
    refuse_what_does_not_fit(max(to_measure), library.COPIES, library.local_ranks)
    messages = [
        Message(library, operation, size)
        for operation in config.operations
        for size in dict.fromkeys(whole(operation, size, library.ranks) for size in to_measure)
    ]

    writer = Writer(library.rank == 0)
    writer.event("start", steps=TURNS * len(messages), world=library.ranks)
    announce(writer, library, settings)
    for turn in range(TURNS):
        for step, message in enumerate(messages, start=1 + turn * len(messages)):
            message.take(turn, config)
            writer.event("step", step=step, operation=message.operation, size_bytes=message.size_bytes)
    points = [message.measured() for message in messages]
    for point in points:
        median = f"{1e6 * point['seconds']['median']:,.1f} µs, median of {point['repeats']}"
        writer.print(f"{point['operation']} {point['size_bytes']:,} bytes: {median}")
    names = sorted(name for name in os.environ if name.startswith("NCCL_") or name in SETTINGS)
    writer.result(
        config=vars(config),
        library=library.name,
        backend=library.backend,
        transport=library.transport,
        hosts=library.hosts,
        ranks=library.ranks,
        settings={name: os.environ[name] for name in names},
        points=points,
    )


def task_here():
    """Return this process's task in a tf.distribute cluster."""
    task = cluster.read()
    if task.chief or task.ps:
        raise BenchError('a chief and parameter servers have no collectives: launch with cluster="multi_worker"')
    return task


def announce(writer, library, settings):
    """Print what will be measured, with caveats."""
    if settings and library.backend != "nccl":
        writer.event("note", message=f"settings of NCCL have no effect: {library.backend} is in use")
    if library.ranks == 1:
        writer.event("note", message="one rank sends nothing: the times are the library's overhead")
    writer.print(f"{library.name}, {library.backend}, {library.ranks} ranks: {library.transport}")


def whole(operation, size_bytes, ranks):
    """Return the size to measure, rounded so that each rank contributes whole numbers to an all-gather."""
    parts = ranks if operation == "all_gather" else 1
    return max(1, size_bytes // (4 * parts)) * 4 * parts


class Message:
    """One operation on messages of one size, and its times."""

    def __init__(self, library, operation, size_bytes):
        self.library, self.operation, self.size_bytes = library, operation, size_bytes
        self.own = size_bytes // 4 // (library.ranks if operation == "all_gather" else 1)
        self.act = library.operation(operation, self.own)
        self.seconds = []

    def take(self, turn, config):
        """Run one round of repetitions."""
        # Rank k contributes k + 1, so the result shows which ranks took part.
        values = tf.fill([self.own], self.library.rank + 1.0)
        if turn == 0:
            self._check(self.act(values))  # also builds the graph
        warm = self._once(values)
        if turn == 0:
            self.count = repeats(config, self.library.gather([warm]).max())
        for _ in range(turn, self.count, TURNS):
            self.seconds.append(self._once(values))

    def _once(self, values):
        self.library.barrier()
        start = time.perf_counter()
        self.library.finish(self.act(values))
        return time.perf_counter() - start

    def _check(self, result):
        ranks, numbers = self.library.ranks, self.size_bytes // 4
        ends = {"all_reduce": (ranks * (ranks + 1) / 2,) * 2, "broadcast": (1, 1), "all_gather": (1, ranks)}
        right = *ends[self.operation], numbers
        found = float(result[0]), float(result[-1]), len(result)
        if found != right:
            raise RuntimeError(
                f"{self.operation} of {self.size_bytes:,} bytes gave {found} on rank {self.library.rank}, where "
                f"{right} is right (first, last, how many)"
            )

    def measured(self):
        """Return the point for the record; a repetition takes as long as its slowest rank."""
        slowest = self.library.gather(self.seconds).max(axis=0)
        return {
            "operation": self.operation,
            "size_bytes": self.size_bytes,
            "repeats": self.count,
            "seconds": timing(slowest.tolist()),
        }


if __name__ == "__main__":
    run(main, config)
