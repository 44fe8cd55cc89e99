"""Three algorithms for an all-reduce race on real ranks, over sockets, in turns in one job.

    ddl run --workers 4 --oversubscribe race_allreduce.py     # on a machine with fewer cores than ranks
    ddl run --workers 8 --nodes 2 race_allreduce.py --max-bytes 67108864

They are a ring, recursive doubling, and halving and doubling, written out below in a few lines
each. All use the same connections, one between any two ranks, so that they differ only in who
sends what to whom. Each result is compared with Horovod's own all-reduce, number by number.
"""

from ddl.training import bench
from ddl.training.bench import BenchError
from ddl.training.options import parser, run


def parse(arguments=None):
    ours = parser(__doc__)
    bench.add_options(ours)
    ours.set_defaults(max_bytes=2**24, seconds=1.0)
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once

import os
import select
import socket
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ddl.training.bench import address, link, refuse_what_does_not_fit, repeats, sizes, spread, timing
from ddl.training.exchange import cycle_time
from ddl.training.journal import Writer, provenance

WARM_UP = 2  # turns of each size
COPIES = 5  # of a message that a rank holds at once
PATIENCE_S = 60
QUIET_MS = 50.0  # Horovod looks for work as seldom as this, so that it takes no core from those who race
ITEM = np.dtype(np.float32)


def main(config):
    to_measure = sizes(config)
    with cycle_time(QUIET_MS):
        hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    if ranks < 2 or ranks & (ranks - 1):
        raise BenchError(f"{ranks} ranks: halving and doubling, as it is written here, needs 2, 4, 8 or 16 …")
    refuse_what_does_not_fit(max(to_measure), COPIES, hvd.local_size())
    interface = config.interface or ("lo" if hvd.cross_size() == 1 else os.environ.get("HOROVOD_GLOO_IFACE", ""))
    mesh = Mesh(address(interface) if interface else socket.gethostname())

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
        {
            **provenance(),
            "config": vars(config),
            "library": "sockets",
            "transport": link(interface, hvd.cross_size()),
            "hosts": hvd.cross_size(),
            "ranks": ranks,
            "points": points,
            "history": [],
        }
    )


def measure(mesh, size_bytes, config):
    """Time all algorithms in turns on messages of one size; return their points.

    Raises
    ------
    RuntimeError
        If a result is not that of Horovod's own all-reduce.
    """
    # Small whole numbers: their sums are exact, whatever the order in which they are added.
    values = np.random.default_rng(hvd.rank()).integers(-1000, 1000, size_bytes // ITEM.itemsize).astype(ITEM)
    right = hvd.allreduce(tf.constant(values), op=hvd.Sum, name=f"right.{size_bytes}").numpy()
    sent = []
    for name, algorithm in ALGORITHMS.items():
        before = mesh.sent_bytes, mesh.messages
        if not np.array_equal(algorithm(mesh, values.copy()), right):
            raise RuntimeError(f"{name}: rank {hvd.rank()} has not the sum of {size_bytes:,} bytes")
        sent.append((mesh.sent_bytes - before[0], mesh.messages - before[1]))
    warm = [[timed(mesh, algorithm, values) for algorithm in ALGORITHMS.values()] for _ in range(WARM_UP)]
    count = repeats(config, gather([[sum(warm[-1])]]).max())
    own = [[timed(mesh, algorithm, values) for algorithm in ALGORITHMS.values()] for _ in range(count)]
    # A repetition took as long as its slowest rank.
    seconds = gather([own]).max(axis=0)
    everyones = gather([sent])
    return [
        {
            "operation": "all_reduce",
            "algorithm": name,
            "size_bytes": size_bytes,
            "repeats": count,
            "seconds": timing(seconds[:, column].tolist()),
            # By how much each other one is slower, in the same turn.
            "ahead_of": {
                other: spread(seconds[:, index] / seconds[:, column])
                for index, other in enumerate(ALGORITHMS)
                if index != column
            },
            "messages": int(everyones[:, column, 1].max()),
            "sent_bytes": float(everyones[:, column, 0].mean()),
        }
        for column, name in enumerate(ALGORITHMS)
    ]


def timed(mesh, algorithm, values):
    total = values.copy()
    recursive_doubling(mesh, np.zeros(1, ITEM))  # nobody leaves before all have come
    start = time.perf_counter()
    algorithm(mesh, total)
    return time.perf_counter() - start


def gather(values):
    """Return the rows of all ranks, one below another."""
    return hvd.allgather(tf.constant(values, tf.float64), name="measured").numpy()


# ---------------------------------------------------------------- the algorithms


def ring(mesh, total, order=None):
    """Send to the next rank only, in this order of them: first to add up the pieces, then to pass them on."""
    ranks, order = mesh.ranks, order or range(mesh.ranks)
    place = order.index(mesh.rank)
    right, left = order[(place + 1) % ranks], order[place - 1]
    pieces = np.array_split(total, ranks)
    for step in range(2 * (ranks - 1)):
        coming = pieces[(place - step - 1) % ranks]
        came = mesh.exchange(right, pieces[(place - step) % ranks], left, coming)
        coming[:] = coming + came if step < ranks - 1 else came
    return total


def recursive_doubling(mesh, total):
    """Exchange all that is added up so far, with partners at distance 1, 2, 4 and so on."""
    distance = 1
    while distance < mesh.ranks:
        partner = mesh.rank ^ distance
        total += mesh.exchange(partner, total, partner, total)
        distance *= 2
    return total


def halving_and_doubling(mesh, total):
    """Give away half of what is left, keep adding up the other half, and at the end go back the same way."""
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
    """A connection from this rank to each other one."""

    def __init__(self, own):
        self.rank, self.ranks = hvd.rank(), hvd.size()
        self.sent_bytes = self.messages = 0
        self.to = {}
        with socket.create_server((own, 0), backlog=self.ranks) as door:
            door.settimeout(PATIENCE_S)
            doors = hvd.allgather_object(door.getsockname())
            for rank in range(self.rank):
                self.to[rank] = socket.create_connection(doors[rank], PATIENCE_S)
                self.to[rank].sendall(self.rank.to_bytes(4, "big"))
            for _ in range(self.rank + 1, self.ranks):
                there, _ = door.accept()
                self.to[int.from_bytes(there.recv(4, socket.MSG_WAITALL), "big")] = there
        for there in self.to.values():
            there.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            there.setblocking(False)

    def exchange(self, to, piece, source, like):
        """Send a piece to one rank while another comes from a rank, of a known size; return that."""
        self.messages += 1
        self.sent_bytes += piece.nbytes
        came = np.empty_like(like)
        out, room = bytes_of(piece), bytes_of(came)
        while out or room:
            readable, writable, _ = select.select(
                [self.to[source]] if room else [], [self.to[to]] if out else [], [], PATIENCE_S
            )
            if not readable and not writable:
                raise TimeoutError(f"rank {self.rank} waited {PATIENCE_S} s for ranks {to} and {source}")
            if writable:
                out = out[writable[0].send(out) :]
            if readable:
                got = readable[0].recv_into(room)
                if not got:
                    raise ConnectionError(f"rank {source} is gone: its log, or its error file, says why")
                room = room[got:]
        return came

    def close(self):
        for there in self.to.values():
            there.close()


def bytes_of(array):
    """Return an array's memory, byte by byte; that of an empty one, too."""
    return memoryview(array).cast("B") if array.size else memoryview(b"")


if __name__ == "__main__":
    run(main, config)
