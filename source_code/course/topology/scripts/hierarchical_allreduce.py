"""Benchmark of all-reduce variants over hosts with a slow network between them.

    ddl run --site containers/sites/two-hosts.toml --workers 4 hierarchical_allreduce.py
    ddl run --workers 8 --nodes 2 hierarchical_allreduce.py --max-bytes 67108864   # on a cluster

The variants are Horovod's ring; a ring over plain sockets, once host by host and once alternating between hosts; and
two hierarchies of Horovod's operations, which reduce inside each host first to send less between hosts. They run in
turns in one job. Each result is compared with Horovod's, number by number. The traffic comes from the counters of the
hosts' interfaces.
"""

from course.shared import bench
from course.shared.bench import FLAT, VARIANTS
from course.training.options import run


def parse_args(arguments=None):
    return bench.parse(bench.parser(__doc__, min_bytes=2**12, max_bytes=2**24, seconds=2.0, repeats=30), arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import os
import select
import time
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import psutil
import tensorflow as tf

from course.shared.bench import link_bytes, refuse_what_does_not_fit, repeats, sizes, spread, timing
from course.shared.sockets import PATIENCE_S, connect
from course.topology.channels import barrier
from course.training.training_log import Writer
from ddl.records.network import RATE, link_made_here

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
    variants = Variants(config.interface)

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
        library="horovod",
        backend="gloo",
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
    """Time all variants in turns on messages of one size; return their points."""
    values, right = numbers_to_add(size_bytes)
    message = tf.constant(values)
    for variant in VARIANTS:
        check(variant, variants.act(variant, message), right)
    figures = in_turns([partial(variants.timed, variant, message) for variant in VARIANTS], config)
    seconds = figures[..., 0].max(axis=0)  # a repetition took as long as its slowest rank
    sent = figures[..., 1].max(axis=0)  # from the host that sent most
    return [
        {
            "operation": "all_reduce",
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


def numbers_to_add(size_bytes):
    """Return this rank's values of a message, and their sum over all ranks."""
    # Small integers, whose sums are exact in any order.
    values = np.random.default_rng(hvd.rank()).integers(-1000, 1000, size_bytes // ITEM.itemsize).astype(ITEM)
    return values, hvd.allreduce(tf.constant(values), op=hvd.Sum, name=f"right.{size_bytes}").numpy()


def check(name, result, right):
    """Raise RuntimeError if a result differs from Horovod's all-reduce."""
    if not np.array_equal(result, right):
        raise RuntimeError(
            f"{name}: on rank {hvd.rank()} the sum of {right.nbytes:,} bytes is not that of Horovod's own all-reduce"
        )


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


def ring(mesh, total, order):
    """Send only to the next rank in `order`: first to sum the pieces, then to pass them on."""
    position = order.index(mesh.rank)
    right, left = order[(position + 1) % mesh.ranks], order[position - 1]
    pieces = np.array_split(total, mesh.ranks)
    for step in range(2 * (mesh.ranks - 1)):
        piece = pieces[(position - step - 1) % mesh.ranks]
        received = mesh.exchange(right, pieces[(position - step) % mesh.ranks], left, piece)
        piece[:] = piece + received if step < mesh.ranks - 1 else received
    return total


class Mesh:
    """Connections from this rank to all others."""

    def __init__(self, interface):
        self.rank, self.ranks = hvd.rank(), hvd.size()
        self.to = connect(interface)
        for connection in self.to.values():
            connection.setblocking(False)

    def exchange(self, to, piece, source, like):
        """Send a piece to one rank while receiving one of known size from another; return it."""
        received = np.empty_like(like)
        out, room = bytes_of(piece), bytes_of(received)
        while out or room:
            readable, writable, _ = select.select(
                [self.to[source]] if room else [], [self.to[to]] if out else [], [], PATIENCE_S
            )
            if not readable and not writable:
                raise TimeoutError(f"rank {self.rank} waited {PATIENCE_S:g} s for ranks {to} and {source}")
            if writable:
                out = out[writable[0].send(out) :]
            if readable:
                count = readable[0].recv_into(room)
                if not count:
                    raise ConnectionError(f"rank {source} is gone: its log, or its error file, says why")
                room = room[count:]
        return received


def bytes_of(array):
    """Return an array's memory as bytes, including an empty array's."""
    return memoryview(array).cast("B") if array.size else memoryview(b"")


class Variants:
    """All variants, ready to use.

    `interface` leads to the other hosts; the default is Horovod's.
    """

    def __init__(self, interface=None):
        rank, ranks, each = hvd.rank(), hvd.size(), hvd.local_size()
        by_host = [list(range(first, first + each)) for first in range(0, ranks, each)]
        across = [list(ranks_) for ranks_ in zip(*by_host, strict=True)]
        inside = [hvd.add_process_set(ranks_) for ranks_ in by_host]
        between = [hvd.add_process_set(ranks_) for ranks_ in across]
        self.inside, self.between = inside[rank // each], between[rank % each]
        self.leads = rank % each == 0
        self.leader = by_host[rank // each][0]
        self.interface = interface or os.environ["HOROVOD_GLOO_IFACE"]
        self.transport = link_made_here() or f"TCP over {self.interface}"
        self.mesh = Mesh(self.interface)
        self.orders = {"ring": list(range(ranks)), "crossing ring": [rank_ for ranks_ in across for rank_ in ranks_]}
        self.functions = {}

    def timed(self, variant, message):
        """Run one all-reduce; return its seconds and the bytes that this host sent meanwhile."""
        barrier()
        before = self.sent_bytes()
        start = time.perf_counter()
        self.act(variant, message)
        seconds = time.perf_counter() - start
        barrier()  # or another rank of this host might still be sending
        return seconds, self.sent_bytes() - before

    def act(self, variant, message):
        """Run one all-reduce; return the sum, an array."""
        if variant in self.orders:
            return ring(self.mesh, message.numpy().copy(), self.orders[variant])
        key = variant, message.shape[0]
        if key not in self.functions:
            self.functions[key] = tf.function(
                {FLAT: self.flat, "hierarchical": self.hierarchical, "leaders": self.leaders}[variant], autograph=False
            )
        return self.functions[key](message).numpy()

    def flat(self, message):
        return hvd.allreduce(message, op=hvd.Sum, name=f"flat.{message.shape[0]}")

    def hierarchical(self, message):
        name = f"hierarchical.{message.shape[0]}"
        part = hvd.reducescatter(message, op=hvd.Sum, process_set=self.inside, name=f"{name}.in")
        part = hvd.allreduce(part, op=hvd.Sum, process_set=self.between, name=f"{name}.between")
        return hvd.allgather(part, process_set=self.inside, name=f"{name}.out")

    def leaders(self, message):
        name = f"leaders.{message.shape[0]}"
        total = hvd.allreduce(message, op=hvd.Sum, process_set=self.inside, name=f"{name}.in")
        if self.leads:
            total = hvd.allreduce(total, op=hvd.Sum, process_set=self.between, name=f"{name}.between")
        return hvd.broadcast(total, self.leader, process_set=self.inside, name=f"{name}.out")

    def sent_bytes(self):
        """Return the bytes that this host's interface has sent so far, by its own counter."""
        return psutil.net_io_counters(pernic=True)[self.interface].bytes_sent


if __name__ == "__main__":
    run(main, config)
