"""Benchmark of latency and bandwidth between pairs of ranks, for message sizes from 4 B to 256 MiB.

    ddl run --workers 2 bench_p2p.py
    ddl run --workers 2 bench_p2p.py --paths tcp shared_memory --sizes 4 4096 4194304

Two ranks send a message back and forth while all others wait; the one-way time is half a round trip. N ranks make
N (N − 1) / 2 pairs, one after another: use --seconds 0.05 if there are many.

tcp            a socket, on the interface that --interface names
shared_memory  both copy through memory that they share: on the same host only, and as fast as the
               processor's caches where a message fits into them
horovod        a Horovod broadcast in each direction, in a process set of the two ranks
"""

from course.shared import bench
from course.training.options import run

PATHS = ("tcp", "shared_memory", "horovod")


def parse_args(arguments=None):
    ours = bench.parser(__doc__)
    ours.add_argument("--paths", nargs="+", choices=PATHS, default=list(PATHS))
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse_args()  # before the slow imports, to report wrong options at once

import itertools
import os
import time

import horovod.tensorflow as hvd
import tensorflow as tf

from course.shared.bench import BenchError, link, refuse_what_does_not_fit, repeats, sizes, timing
from course.shared.sockets import interface_between_ranks
from course.topology.channels import Broadcast, SharedMemory, Socket, barrier
from course.training.training_log import Writer

CHANNELS = {"tcp": Socket, "shared_memory": SharedMemory, "horovod": Broadcast}
WARM_UP = 3  # round trips of each size
COPIES = 5  # copies of a message in a rank's memory, at most


def main(config):
    to_measure = sizes(config)
    if config.interface:
        os.environ["HOROVOD_GLOO_IFACE"] = config.interface

    # Horovod: initialize. Process sets are added for each pair.
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    tf.config.set_visible_devices([], "GPU")  # messages stay in host memory
    refuse_what_does_not_fit(max(to_measure), COPIES, min(2, hvd.local_size()))

    nodes = hvd.allgather_object(hvd.cross_rank())
    pairs = list(itertools.combinations(range(ranks), 2))
    near = [pair for pair in pairs if nodes[pair[0]] == nodes[pair[1]]]
    wanted = {path: near if path == "shared_memory" else pairs for path in config.paths}
    between = [(path, pair) for path in wanted for pair in wanted[path]]
    if not between:
        alone = "needs two ranks: launch it with workers=2"
        why = alone if ranks == 1 else "no two ranks are on the same host"
        raise BenchError(f"--paths {' '.join(config.paths)}: nothing to measure, because {why}")

    # Horovod: write on rank 0 only.
    writer, points = Writer(rank == 0), []
    writer.event("start", steps=len(between) * len(to_measure), world=ranks)
    if len(near) < len(pairs) and "shared_memory" in config.paths:
        writer.event("note", message=f"shared memory: {len(near)} of {len(pairs)} pairs are on the same host")
    for point in measured(between, to_measure, config):
        points.append(point)
        writer.event("step", step=len(points), **point)
        median = f"{1e6 * point['seconds']['median']:,.1f} µs one way, median of {point['repeats']}"
        writer.print(f"{point['path']} {' to '.join(map(str, point['pair']))}, {point['size_bytes']:,} bytes: {median}")
    barrier()
    if rank:
        return
    writer.result(
        config=vars(config),
        library="horovod",
        backend=controller(),
        hosts=len(set(nodes)),
        ranks=ranks,
        transport=transport(dict.fromkeys(point["path"] for point in points), config.interface, len(set(nodes))),
        points=points,
    )


def measured(between, to_measure, config):
    """Yield a point for each path, pair and size."""
    for path, pair in between:
        channel = CHANNELS[path](pair, interface_between_ranks(config.interface))
        for size in to_measure:
            found = round_trips(channel, pair, size, config)
            yield {"path": path, "pair": list(pair), "size_bytes": size, **found}
        channel.close()


def transport(paths, interface, hosts):
    """Return a description of each path's transport."""
    tcp = link(interface_between_ranks(interface), hosts)
    words = {
        "tcp": tcp,
        "shared_memory": "memory of this host",
        "horovod": f"{controller()}, {tcp if controller() == 'gloo' else 'MPI chooses'}",
    }
    return "; ".join(f"{path}: {words[path]}" for path in paths)


def controller():
    """Return the backend of Horovod's operations on host memory."""
    return "mpi" if hvd.mpi_enabled() else "gloo"


def round_trips(channel, pair, size_bytes, config):
    """Time messages back and forth between a pair; return repeats and times of one way.

    Every rank calls this; ranks outside the pair wait. Raises RuntimeError if the received data differ.
    """
    rank, seconds = hvd.rank(), [0.0]
    if rank in pair:
        first, other = rank == pair[0], sum(pair) - rank
        message, buffer = channel.message(size_bytes, 1 + rank % 255), channel.message(size_bytes, 0)

    def send_and_receive(count):
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            if first:
                channel.send(message)
            received = channel.receive(buffer)
            if not first:
                channel.send(message)
            seconds.append((time.perf_counter() - start) / 2)
        if {int(received[0]), int(received[-1])} != {1 + other % 255}:
            raise RuntimeError(
                f"{size_bytes:,} bytes from rank {other} arrived at rank {rank} as "
                f"{int(received[0])} … {int(received[-1])}, not as {1 + other % 255}"
            )
        return seconds

    if rank in pair:
        seconds = send_and_receive(WARM_UP)
    # The rank that sends first chooses the number of repeats and broadcasts it.
    count = int(hvd.broadcast(tf.constant(repeats(config, 2 * seconds[-1])), root_rank=pair[0], name="count"))
    if rank in pair:
        seconds = send_and_receive(count)
    return hvd.broadcast_object({"repeats": count, "seconds": timing(seconds)}, root_rank=pair[0], name="measured")


if __name__ == "__main__":
    run(main, config)
