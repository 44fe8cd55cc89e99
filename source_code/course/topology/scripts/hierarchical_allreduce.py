"""Benchmark of a flat and a hierarchical all-reduce over hosts with a slow network between them.

    ddl run --site containers/sites/two-hosts.toml --workers 4 hierarchical_allreduce.py
    ddl run --workers 8 --nodes 2 hierarchical_allreduce.py --max-bytes 67108864   # on a cluster

The flat one is Horovod's own ring. The hierarchy consists of Horovod's operations, and reduces inside each host first
to send less between hosts. Both run in turns in one job, and their results are compared, number by number. The traffic
comes from the counters of the hosts' interfaces.
"""

from course.shared import bench
from course.shared.bench import FLAT, HIERARCHICAL, VARIANTS
from course.training.options import run


def parse_args(arguments=None):
    return bench.parse(bench.parser(__doc__, min_bytes=2**12, max_bytes=2**24, seconds=2.0, repeats=30), arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import os
import time
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import psutil
import tensorflow as tf

from course.shared.bench import link, link_bytes, refuse_what_does_not_fit, repeats, sizes, spread, timing
from course.shared.sockets import interface_between_ranks
from course.training.training_log import Writer
from ddl.records.network import RATE

WARM_UP = 2  # turns of each size
LEAST = 5  # minimal rounds, for the quartiles
COPIES = 6  # copies of a message that a rank holds at once
ITEM = np.dtype(np.float32)


def main(config):
    to_measure = sizes(config)

    # Horovod: initialize. Process sets are added later, when the ranks' hosts are known.
    hvd.init(process_sets="dynamic")
    rank, ranks, each = hvd.rank(), hvd.size(), hvd.local_size()
    if hvd.cross_size() < 2 or each < 2:
        raise SystemExit(
            f"hierarchical_allreduce.py: {ranks} ranks on {hvd.cross_size()} hosts, but it needs "
            "at least two hosts with two ranks each: launch(..., workers=4, nodes=2). With "
            "site=hosts.site(), this machine simulates two hosts, if permitted."
        )
    refuse_what_does_not_fit(max(to_measure), COPIES, each)
    variants = Variants()

    writer = Writer(rank == 0)
    writer.event("start", steps=len(to_measure), world=ranks)
    writer.print(f"{ranks} ranks on {hvd.cross_size()} hosts: {variants.transport}")
    points = []
    for step, size in enumerate(dict.fromkeys(whole(size, each) for size in to_measure), start=1):
        measured = measure(variants, size, config)
        points += measured
        writer.event("step", step=step, size_bytes=size)
        times = (f"{point['variant']} {1e3 * point['seconds']['median']:.2f}" for point in measured)
        writer.print(f"{size:,} bytes, ms: {', '.join(times)}")
    rate = os.environ.get(RATE)
    writer.result(
        config=vars(config),
        transport=variants.transport,
        rate_mbit=int(rate) if rate else None,
        hosts=hvd.cross_size(),
        ranks_per_host=each,
        ranks=ranks,
        points=points,
    )


def whole(size_bytes, ranks_per_host):
    """Return the size to measure: one that splits evenly over the ranks of a host."""
    part = ITEM.itemsize * ranks_per_host
    return max(1, size_bytes // part) * part


def measure(variants, size_bytes, config):
    """Time both variants in turns on messages of one size; return their points."""
    # Small integers, whose sums are exact in any order.
    values = np.random.default_rng(hvd.rank()).integers(-1000, 1000, size_bytes // ITEM.itemsize).astype(ITEM)
    message = tf.constant(values)
    if not np.array_equal(variants.act(HIERARCHICAL, message), variants.act(FLAT, message)):
        raise RuntimeError(f"on rank {hvd.rank()} the hierarchical sum of {size_bytes:,} bytes is not the flat one")
    figures = in_turns([partial(variants.timed, variant, message) for variant in VARIANTS], config)
    seconds = figures[..., 0].max(axis=0)  # a repetition took as long as its slowest rank
    sent = figures[..., 1].max(axis=0)  # from the host that sent most
    return [
        {
            "variant": variant,
            "size_bytes": size_bytes,
            "repeats": len(seconds),
            "seconds": timing(seconds[:, column].tolist()),
            "faster": spread(seconds[:, 0] / seconds[:, column]),  # than the first, the flat one
            "link_bytes": {
                "counted": float(np.median(sent[:, column])),
                "expected": link_bytes(variant, size_bytes, hvd.cross_size(), hvd.local_size()),
            },
        }
        for column, variant in enumerate(VARIANTS)
    ]


def in_turns(tasks, config):
    """Run all tasks in turns, for at least `LEAST` rounds; a task returns its seconds and further figures.

    Returns float64 ``[ranks, turns, tasks, figures]``.
    """
    for _ in range(WARM_UP):
        turn = np.array([task() for task in tasks])
    turns = max(LEAST, repeats(config, gather([[turn[:, 0].sum()]]).max()))
    figures = np.array([[task() for task in tasks] for _ in range(turns)])
    return gather(figures[None])


def gather(values):
    """Return the stacked rows of all ranks."""
    return hvd.allgather(tf.constant(values, tf.float64), name="measured").numpy()


class Variants:
    """Both all-reduces, ready to use."""

    def __init__(self):
        rank, ranks, each = hvd.rank(), hvd.size(), hvd.local_size()
        by_host = [list(range(first, first + each)) for first in range(0, ranks, each)]
        inside = [hvd.add_process_set(ranks_) for ranks_ in by_host]
        between = [hvd.add_process_set(list(ranks_)) for ranks_ in zip(*by_host, strict=True)]
        self.inside, self.between = inside[rank // each], between[rank % each]
        self.interface = interface_between_ranks()
        self.transport = link(self.interface)
        self.functions = {}

    def timed(self, variant, message):
        """Run one all-reduce; return its seconds and the bytes that this host sent meanwhile."""
        self.barrier()
        before = self.sent_bytes()
        start = time.perf_counter()
        self.act(variant, message)
        seconds = time.perf_counter() - start
        self.barrier()  # or another rank of this host might still be sending
        return seconds, self.sent_bytes() - before

    def barrier(self):
        hvd.allreduce(tf.zeros([1]), name="barrier")

    def act(self, variant, message):
        """Run one all-reduce; return the sum, an array."""
        key = variant, message.shape[0]
        if key not in self.functions:
            act = {FLAT: self.flat, HIERARCHICAL: self.hierarchical}[variant]
            self.functions[key] = tf.function(act, autograph=False)
        return self.functions[key](message).numpy()

    def flat(self, message):
        return hvd.allreduce(message, op=hvd.Sum, name=f"flat.{message.shape[0]}")

    def hierarchical(self, message):
        name = f"hierarchical.{message.shape[0]}"
        part = hvd.reducescatter(message, op=hvd.Sum, process_set=self.inside, name=f"{name}.in")
        part = hvd.allreduce(part, op=hvd.Sum, process_set=self.between, name=f"{name}.between")
        return hvd.allgather(part, process_set=self.inside, name=f"{name}.out")

    def sent_bytes(self):
        """Return the bytes that this host's interface has sent so far, by its own counter."""
        return psutil.net_io_counters(pernic=True)[self.interface].bytes_sent


if __name__ == "__main__":
    run(main, config)
