"""Benchmark of latency and bandwidth of sockets between pairs of ranks, for message sizes from 4 B to 256 MiB.

    ddl run --workers 2 bench_p2p.py
    ddl run --workers 2 bench_p2p.py --sizes 4 4096 4194304

Two ranks send a message back and forth while all others wait; the one-way time is half a round trip. N ranks make
N (N − 1) / 2 pairs, one after another: use --seconds 0.05 if there are many.
"""

from course.shared import bench
from course.training.options import run


def parse_args(arguments=None):
    return bench.parse(bench.parser(__doc__), arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import itertools
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.shared.bench import BenchError, link, refuse_what_does_not_fit, repeats, sizes, timing
from course.shared.sockets import connect, interface_between_ranks
from course.training.training_log import Writer

WARM_UP = 3  # round trips of each size
COPIES = 2  # of a message in a rank's memory: one to send, one to receive


def main(config):
    to_measure = sizes(config)

    # Horovod: initialize.
    hvd.init()
    tf.config.set_visible_devices([], "GPU")  # messages stay in host memory
    rank, ranks, hosts = hvd.rank(), hvd.size(), hvd.cross_size()
    if ranks == 1:
        raise BenchError("one rank has nobody to send to: launch it with workers=2")
    refuse_what_does_not_fit(max(to_measure), COPIES, min(2, hvd.local_size()))
    interface = interface_between_ranks()
    connections = connect(interface)
    pairs = list(itertools.combinations(range(ranks), 2))

    # Horovod: write on rank 0 only.
    writer, points = Writer(rank == 0), []
    writer.event("start", steps=len(pairs) * len(to_measure), world=ranks)
    for pair, size in itertools.product(pairs, to_measure):
        point = {"pair": list(pair), "size_bytes": size, **round_trips(connections, pair, size, config)}
        points.append(point)
        writer.event("step", step=len(points), **point)
        median = f"{1e6 * point['seconds']['median']:,.1f} µs one way, median of {point['repeats']}"
        writer.print(f"{pair[0]} to {pair[1]}, {size:,} bytes: {median}")
    writer.result(config=vars(config), hosts=hosts, ranks=ranks, transport=link(interface, hosts), points=points)


def round_trips(connections, pair, size_bytes, config):
    """Time messages back and forth between a pair; return repeats and times of one way.

    Every rank calls this; ranks outside the pair wait. Raises RuntimeError if the received data differ.
    """
    rank, seconds = hvd.rank(), [0.0]
    if rank in pair:
        first, other = rank == pair[0], sum(pair) - rank
        connection = connections[other]
        message, buffer = np.full(size_bytes, 1 + rank % 255, np.uint8), np.zeros(size_bytes, np.uint8)

    def send_and_receive(count):
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            if first:
                connection.sendall(message)
            receive(connection, buffer)
            if not first:
                connection.sendall(message)
            seconds.append((time.perf_counter() - start) / 2)
        if {int(buffer[0]), int(buffer[-1])} != {1 + other % 255}:
            raise RuntimeError(
                f"{size_bytes:,} bytes from rank {other} arrived at rank {rank} as "
                f"{int(buffer[0])} … {int(buffer[-1])}, not as {1 + other % 255}"
            )
        return seconds

    if rank in pair:
        seconds = send_and_receive(WARM_UP)
    # The rank that sends first chooses the number of repeats and broadcasts it.
    count = int(hvd.broadcast(tf.constant(repeats(config, 2 * seconds[-1])), root_rank=pair[0], name="count"))
    if rank in pair:
        seconds = send_and_receive(count)
    return hvd.broadcast_object({"repeats": count, "seconds": timing(seconds)}, root_rank=pair[0], name="measured")


def receive(connection, buffer):
    """Fill the buffer with what arrives."""
    view, received = memoryview(buffer), 0
    while received < len(view):
        count = connection.recv_into(view[received:])
        if not count:
            raise ConnectionError("the other rank closed its end of the socket: its log, or its error file, says why")
        received += count


if __name__ == "__main__":
    run(main, config)
