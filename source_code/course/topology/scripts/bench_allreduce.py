"""Benchmark of Horovod's all-reduce, for message sizes from 4 B to 256 MiB, over Gloo, MPI or NCCL.

    ddl run --workers 2 bench_allreduce.py
    ddl run --workers 2 bench_allreduce.py --sizes 4 4096 4194304
    ddl run --workers 8 bench_allreduce.py --nccl NCCL_ALGO=Ring NCCL_P2P_LEVEL=PHB

A barrier precedes each repetition, and its time is the slowest rank's. The first repetitions, which open connections
and build graphs, are discarded. Sizes are interleaved, so that other load on the machine affects all equally.
"""

from course.shared import bench
from course.training.options import run


def parse_args(arguments=None):
    ours = bench.parser(__doc__)
    ours.add_argument("--nccl", nargs="+", metavar="NAME=VALUE", help="settings of NCCL, such as NCCL_ALGO=Ring")
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from course.shared.bench import ITEM_BYTES, link, nccl_settings, refuse_what_does_not_fit, repeats, sizes, timing
from course.training.gpu import pin_gpu
from course.training.training_log import Writer

TURNS = 3  # rounds for each size; each round's first repetition is discarded
COPIES = 5  # copies of a message in a rank's memory at most, including input and result
SETTINGS = ("HOROVOD_GLOO_IFACE", "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD")


def main(config):
    to_measure = sizes(config)
    settings = nccl_settings(config.nccl)
    os.environ.update(settings)  # NCCL reads them on first use

    # Horovod: initialize, and pin each rank to one GPU, if there are any.
    hvd.init()
    on_cpus = "mpi" if hvd.mpi_enabled() else "gloo"
    backend = "nccl" if pin_gpu() and hvd.nccl_built() else on_cpus
    ranks, hosts = hvd.size(), hvd.cross_size()
    refuse_what_does_not_fit(max(to_measure), COPIES, hvd.local_size())
    messages = [Message(size) for size in to_measure]

    # Horovod: write on rank 0 only.
    writer = Writer(hvd.rank() == 0)
    writer.event("start", steps=TURNS * len(messages), world=ranks)
    if settings and backend != "nccl":
        writer.event("note", message=f"settings of NCCL have no effect: {backend} is in use")
    if ranks == 1:
        writer.event("note", message="one rank sends nothing: the times are the library's overhead")
    carried_by = transport(backend, ranks, hosts)
    writer.print(f"{backend}, {ranks} ranks: {carried_by}")
    for turn in range(TURNS):
        for step, message in enumerate(messages, start=1 + turn * len(messages)):
            message.take(turn, config)
            writer.event("step", step=step, size_bytes=message.size_bytes)
    points = [message.measured() for message in messages]
    for point in points:
        median = f"{1e6 * point['seconds']['median']:,.1f} µs, median of {point['repeats']}"
        writer.print(f"{point['size_bytes']:,} bytes: {median}")
    names = sorted(name for name in os.environ if name.startswith("NCCL_") or name in SETTINGS)
    writer.result(
        config=vars(config),
        backend=backend,
        transport=carried_by,
        hosts=hosts,
        ranks=ranks,
        settings={name: os.environ[name] for name in names},
        points=points,
    )


def transport(backend, ranks, hosts):
    """Return a description of the transport, as far as a script can know."""
    if ranks == 1:
        return "none: there is one rank"
    if backend == "nccl":
        return "NVLink, PCIe or host memory, and a network between hosts, chosen by NCCL (see NCCL_DEBUG=INFO)"
    if backend == "mpi":
        inside = "as a rule, as there is one host" if hosts == 1 else "inside a host, a network between hosts"
        return f"MPI chooses: shared memory {inside}"
    return link(os.environ.get("HOROVOD_GLOO_IFACE", ""), hosts)


def gather(values):
    """Return the values of all ranks: an array of ranks × values, float64."""
    return hvd.allgather(tf.constant([values], tf.float64), name="times").numpy()


class Message:
    """Messages of one size, and the times of their all-reduces."""

    def __init__(self, size_bytes):
        self.size_bytes = size_bytes
        self.act = tf.function(lambda values: hvd.allreduce(values, op=hvd.Sum, name=f"message.{size_bytes}"))
        self.seconds = []

    def take(self, turn, config):
        """Run one round of repetitions."""
        # Rank k contributes k + 1, so the result shows which ranks took part.
        values = tf.fill([self.size_bytes // ITEM_BYTES], hvd.rank() + 1.0)
        if turn == 0:
            self._check(self.act(values))  # also builds the graph
        warm = self._once(values)
        if turn == 0:
            self.count = repeats(config, gather([warm]).max())
        for _ in range(turn, self.count, TURNS):
            self.seconds.append(self._once(values))

    def _once(self, values):
        hvd.allreduce(tf.zeros([1]), name="barrier")
        start = time.perf_counter()
        self.act(values)
        tf.test.experimental.sync_devices()
        return time.perf_counter() - start

    def _check(self, result):
        ranks = hvd.size()
        right = ranks * (ranks + 1) / 2
        if float(result[0]) != right or float(result[-1]) != right:
            raise RuntimeError(
                f"the sum of {self.size_bytes:,} bytes begins with {float(result[0])} and ends with "
                f"{float(result[-1])} on rank {hvd.rank()}, where {right} is right"
            )

    def measured(self):
        """Return the point for the record; a repetition takes as long as its slowest rank."""
        slowest = gather(self.seconds).max(axis=0)
        return {"size_bytes": self.size_bytes, "repeats": self.count, "seconds": timing(slowest.tolist())}


if __name__ == "__main__":
    run(main, config)
