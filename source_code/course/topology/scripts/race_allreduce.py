"""Race of three all-reduce algorithms on real ranks, over sockets.

    ddl run --workers 4 --oversubscribe race_allreduce.py     # on a machine with fewer cores than ranks
    ddl run --workers 8 --nodes 2 race_allreduce.py --max-bytes 67108864

The algorithms are a ring, recursive doubling, and halving and doubling, a few lines each. They use the same
connections, so they differ only in their pattern of messages, and run in turns in one job. Each result is compared with
Horovod's all-reduce, number by number.
"""

from course.shared import bench
from course.shared.bench import BenchError
from course.training.options import run


def parse(arguments=None):
    return bench.parse(bench.parser(__doc__, max_bytes=2**24, seconds=1.0), arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports, to report wrong options at once

import select
import time
from functools import partial

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.shared.bench import link, refuse_what_does_not_fit, repeats, sizes, spread, timing
from course.topology.channels import PATIENCE_S, connect, interface_between_ranks
from course.training.horovod_utils import cycle_time
from course.training.journal import Writer

WARM_UP = 2  # turns of each size
COPIES = 5  # copies of a message that a rank holds at once
QUIET_MS = 50.0  # Horovod's cycle time, long enough not to take cores from the race
ITEM = np.dtype(np.float32)


def main(config):
    to_measure = sizes(config)
    with cycle_time(QUIET_MS):
        hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    if ranks < 2 or ranks & (ranks - 1):
        raise BenchError(f"{ranks} ranks: halving and doubling needs a power of two")
    refuse_what_does_not_fit(max(to_measure), COPIES, hvd.local_size())
    interface = interface_between_ranks(config.interface)
    mesh = Mesh(interface)

    writer = Writer(rank == 0)
    writer.event("start", steps=len(to_measure), world=ranks)
    points = []
    for step, size in enumerate(to_measure, start=1):
        measured = measure(mesh, size, config)
        points += measured
        writer.event("step", step=step, size_bytes=size)
        times = (f"{point['algorithm']} {1e3 * point['seconds']['median']:.3f}" for point in measured)
        writer.print(f"{size:,} bytes, ms: {', '.join(times)}")
    mesh.close()
    writer.result(
        config=vars(config),
        library="sockets",
        transport=link(interface, hvd.cross_size()),
        hosts=hvd.cross_size(),
        ranks=ranks,
        points=points,
    )


def measure(mesh, size_bytes, config):
    """Time all algorithms in turns on messages of one size; return their points."""
    values, right = numbers_to_add(size_bytes)
    sent = []
    for name, algorithm in ALGORITHMS.items():
        before = mesh.sent_bytes, mesh.messages
        check(name, algorithm(mesh, values.copy()), right)
        sent.append((mesh.sent_bytes - before[0], mesh.messages - before[1]))
    tasks = [partial(timed, mesh, algorithm, values) for algorithm in ALGORITHMS.values()]
    seconds = in_turns(tasks, config)[..., 0].max(axis=0)  # a repetition took as long as its slowest rank
    sent = gather([sent])
    return [
        {
            "operation": "all_reduce",
            "algorithm": name,
            "size_bytes": size_bytes,
            "repeats": len(seconds),
            "seconds": timing(seconds[:, column].tolist()),
            # Slowdown of each other algorithm in the same round.
            "ahead_of": {
                other: spread(seconds[:, index] / seconds[:, column])
                for index, other in enumerate(ALGORITHMS)
                if index != column
            },
            "messages": int(sent[:, column, 1].max()),
            "sent_bytes": float(sent[:, column, 0].mean()),
        }
        for column, name in enumerate(ALGORITHMS)
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


def in_turns(tasks, config, least=1):
    """Run all tasks in turns, for at least `least` rounds; a task returns its seconds and further figures.

    Returns float64 ``[ranks, turns, tasks, figures]``.
    """
    for _ in range(WARM_UP):
        turn = np.array([task() for task in tasks])
    turns = max(least, repeats(config, gather([[turn[:, 0].sum()]]).max()))
    figures = np.array([[task() for task in tasks] for _ in range(turns)])
    return gather(figures[None])


def timed(mesh, algorithm, values):
    total = values.copy()
    recursive_doubling(mesh, np.zeros(1, ITEM))  # no rank leaves before all have arrived
    start = time.perf_counter()
    algorithm(mesh, total)
    return [time.perf_counter() - start]


def gather(values):
    """Return the stacked rows of all ranks."""
    return hvd.allgather(tf.constant(values, tf.float64), name="measured").numpy()


# ---------------------------------------------------------------- the algorithms


def ring(mesh, total, order=None):
    """Send only to the next rank in `order`: first to sum the pieces, then to pass them on."""
    ranks, order = mesh.ranks, order or range(mesh.ranks)
    position = order.index(mesh.rank)
    right, left = order[(position + 1) % ranks], order[position - 1]
    pieces = np.array_split(total, ranks)
    for step in range(2 * (ranks - 1)):
        piece = pieces[(position - step - 1) % ranks]
        received = mesh.exchange(right, pieces[(position - step) % ranks], left, piece)
        piece[:] = piece + received if step < ranks - 1 else received
    return total


def recursive_doubling(mesh, total):
    """Exchange partial sums with partners at distance 1, 2, 4 and so on."""
    distance = 1
    while distance < mesh.ranks:
        partner = mesh.rank ^ distance
        total += mesh.exchange(partner, total, partner, total)
        distance *= 2
    return total


def halving_and_doubling(mesh, total):
    """Send half of the remaining data and sum the other half, then go back in reverse."""
    return _halve(mesh, total, mesh.ranks // 2)


def _halve(mesh, part, distance):
    if distance:
        partner = mesh.rank ^ distance
        lower, upper = part[: len(part) // 2], part[len(part) // 2 :]
        mine, other = (upper, lower) if mesh.rank & distance else (lower, upper)
        mine += mesh.exchange(partner, other, partner, mine)
        _halve(mesh, mine, distance // 2)
        other[:] = mesh.exchange(partner, mine, partner, other)
    return part


ALGORITHMS = {"ring": ring, "recursive doubling": recursive_doubling, "halving and doubling": halving_and_doubling}


class Mesh:
    """Connections from this rank to all others."""

    def __init__(self, interface):
        self.rank, self.ranks = hvd.rank(), hvd.size()
        self.sent_bytes = self.messages = 0
        self.to = connect(interface)
        for connection in self.to.values():
            connection.setblocking(False)

    def exchange(self, to, piece, source, like):
        """Send a piece to one rank while receiving one of known size from another; return it."""
        self.messages += 1
        self.sent_bytes += piece.nbytes
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

    def close(self):
        for connection in self.to.values():
            connection.close()


def bytes_of(array):
    """Return an array's memory as bytes, including an empty array's."""
    return memoryview(array).cast("B") if array.size else memoryview(b"")


if __name__ == "__main__":
    run(main, config)
