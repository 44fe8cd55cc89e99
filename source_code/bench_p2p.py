"""Latency and bandwidth between each two ranks, over message sizes from 4 B to 256 MiB.

    ddl run --workers 2 bench_p2p.py
    ddl run --workers 2 bench_p2p.py --paths tcp shared_memory --sizes 4 4096 4194304
    ddl run --workers 1 bench_p2p.py --paths device         # where there are GPUs

Two ranks send a message back and forth while all others wait; half a round trip is one way. N ranks
make N (N − 1) / 2 pairs, one after another: --seconds 0.05 goes through many faster.

tcp            a socket, on the interface that --interface names
shared_memory  both copy through memory that they share: on the same host only, and as fast as the
               processor's caches where a message fits into them
horovod        what Horovod offers between two ranks: a broadcast each way, in a set of the two
device         copies by TensorFlow between rank 0's host memory and its GPUs, and between these
               (written without a GPU at hand: not run on one)
"""

from ddl.training import bench
from ddl.training.options import parser, run

PATHS = ("tcp", "shared_memory", "horovod", "device")


def parse(arguments=None):
    ours = parser(__doc__)
    ours.add_argument("--paths", nargs="+", choices=PATHS, default=list(PATHS[:3]))
    bench.add_options(ours)
    return bench.parse(ours, arguments)


if __name__ == "__main__":
    config = parse()  # before the slow imports: a wrong option is refused at once

import itertools
import mmap
import os
import socket
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ddl.training.bench import BenchError, address, link, refuse_what_does_not_fit, repeats, sizes, timing
from ddl.training.journal import Writer, provenance

WARM_UP = 3  # round trips of each size
COPIES = 5  # of a message in a rank's memory at the most
PATIENCE_S = 60.0  # for the other rank to call or to answer


def main(config):
    to_measure = sizes(config)
    if config.interface:
        os.environ["HOROVOD_GLOO_IFACE"] = config.interface
    gpus = gpus_to_copy_to() if "device" in config.paths else []

    # Horovod: initialise. Process sets are added for each pair.
    os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
    hvd.init()
    rank, ranks = hvd.rank(), hvd.size()
    # Messages stay in the hosts' memory. Only rank 0 copies to GPUs, to all that there are.
    tf.config.set_visible_devices(gpus if rank == 0 else [], "GPU")
    refuse_what_does_not_fit(max(to_measure), COPIES, min(2, hvd.local_size()))

    nodes = hvd.allgather_object(hvd.cross_rank())
    pairs = list(itertools.combinations(range(ranks), 2))
    near = [pair for pair in pairs if nodes[pair[0]] == nodes[pair[1]]]
    between = [
        (path, pair)
        for path in config.paths
        if path != "device"
        for pair in (near if path == "shared_memory" else pairs)
    ]
    devices = ["host", *(f"GPU {number}" for number in range(len(gpus)))]
    copies = list(itertools.permutations(devices, 2))
    if not between and not copies:
        lonely = "one rank has no other to talk to: launch it with workers=2"
        why = lonely if ranks == 1 else "no two ranks are on the same host"
        raise BenchError(f"--paths {' '.join(config.paths)}: nothing can be measured, as {why}")

    # Horovod: write on rank 0 only.
    record = Points(rank == 0)
    record.event("start", steps=(len(between) + len(copies)) * len(to_measure), world=ranks)
    if len(near) < len(pairs) and "shared_memory" in config.paths:
        record.event("note", message=f"shared memory: {len(near)} of {len(pairs)} pairs are on the same host")
    for path, pair in between:
        channel = CHANNELS[path](pair, config.interface)
        for size in to_measure:
            record.add(path, pair, size, round_trips(channel, pair, size, config))
        channel.close()
    if rank == 0:
        for pair, size in itertools.product(copies, to_measure):
            record.add("device", pair, size, device_copies(*pair, size, config))
    barrier()
    record.finish(config, ranks, len(set(nodes)))


def gpus_to_copy_to():
    """Return the GPUs that TensorFlow sees; refuse the path to them where there are none."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise BenchError(
            "--paths device: TensorFlow sees no GPU here, so there is nothing to copy "
            "to; tcp, shared_memory and horovod work without"
        )
    return gpus


class Points(Writer):
    """What was measured so far; one rank writes it down."""

    def __init__(self, writes):
        super().__init__(writes)
        self.points = []

    def add(self, path, pair, size, measured):
        point = {"path": path, "pair": list(pair), "size_bytes": size, **measured}
        self.points.append(point)
        self.event("step", step=len(self.points), **point)
        median = f"{1e6 * measured['seconds']['median']:,.1f} µs one way, median of {measured['repeats']}"
        self.print(f"{path} {pair[0]} to {pair[1]}, {size:,} bytes: {median}")

    def finish(self, config, ranks, hosts):
        if not self.recorder:
            return
        tcp = link(own_interface(config.interface), hosts)
        paths = dict.fromkeys(point["path"] for point in self.points)
        self.result(
            {
                **provenance(),
                "config": vars(config),
                "library": "horovod",
                "backend": controller(),
                "hosts": hosts,
                "ranks": ranks,
                "transport": "; ".join(f"{path}: {transport(path, tcp)}" for path in paths),
                "points": self.points,
                "history": [],
            }
        )


def transport(path, tcp):
    """Say in words where the bytes of a path go; `tcp` does so for TCP's."""
    if path == "horovod":
        return f"{controller()}, {tcp if controller() == 'gloo' else 'MPI chooses'}"
    return {"tcp": tcp, "shared_memory": "memory of this host", "device": "PCIe, or NVLink between GPUs that have it"}[
        path
    ]


def barrier():
    """Wait until all ranks are here."""
    hvd.allreduce(tf.zeros([1]), name="barrier")


def controller():
    """Return what carries Horovod's operations on host memory."""
    return "mpi" if hvd.mpi_enabled() else "gloo"


def own_interface(chosen):
    """Return the interface to use: the chosen one, else Horovod's between hosts, loopback inside one."""
    if chosen or hvd.cross_size() == 1:
        return chosen or "lo"
    return os.environ.get("HOROVOD_GLOO_IFACE", "")


# ---------------------------------------------------------------- between two ranks


def round_trips(channel, pair, size_bytes, config):
    """Time messages back and forth between a pair; return repeats and times of one way.

    Every rank calls it; those outside the pair wait.

    Raises
    ------
    RuntimeError
        If what came is not what was sent.
    """
    rank, count, taken = hvd.rank(), WARM_UP, [0.0]
    if rank in pair:
        first = rank == pair[0]
        other = pair[1] if first else pair[0]
        own, room = channel.message(size_bytes, 1 + rank % 255), channel.message(size_bytes, 0)

    def send_and_receive(count):
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            if first:
                channel.send(own)
            came = channel.receive(room)
            if not first:
                channel.send(own)
            seconds.append((time.perf_counter() - start) / 2)
        if {int(came[0]), int(came[-1])} != {1 + other % 255}:
            raise RuntimeError(
                f"{size_bytes:,} bytes from rank {other} arrived at rank {rank} as "
                f"{int(came[0])} … {int(came[-1])}, not as {1 + other % 255}"
            )
        return seconds

    if rank in pair:
        taken = send_and_receive(WARM_UP)
    # The rank that sends first decides how often, and tells the others.
    count = int(hvd.broadcast(tf.constant(repeats(config, 2 * taken[-1])), root_rank=pair[0], name="count"))
    if rank in pair:
        taken = send_and_receive(count)
    return hvd.broadcast_object({"repeats": count, "seconds": timing(taken)}, root_rank=pair[0], name="measured")


class Socket:
    """A TCP connection between a pair of ranks. All ranks take part in making it."""

    def __init__(self, pair, interface):
        rank, name = hvd.rank(), own_interface(interface)
        self.socket = door = None
        if rank == pair[0]:
            door = socket.create_server((address(name) if name else socket.gethostname(), 0))
            door.settimeout(PATIENCE_S)
        there = hvd.broadcast_object(door and door.getsockname(), root_rank=pair[0], name="door")
        if rank == pair[0]:
            with door:
                self.socket, _ = door.accept()
        elif rank == pair[1]:
            own = (address(name), 0) if name else None
            self.socket = socket.create_connection(there, PATIENCE_S, source_address=own)
        if self.socket:
            self.socket.settimeout(PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def message(self, size_bytes, value):
        return np.full(size_bytes, value, np.uint8)

    def send(self, message):
        self.socket.sendall(message)

    def receive(self, room):
        view, got = memoryview(room), 0
        while got < len(view):
            new = self.socket.recv_into(view[got:])
            if not new:
                raise ConnectionError(
                    "the other rank closed its end of the socket: its log, or its error file, says why"
                )
            got += new
        return room

    def close(self):
        if self.socket:
            self.socket.close()


class SharedMemory:
    """Two queues of pieces in memory that a pair of ranks maps, one for each direction.

    One rank copies a piece in while the other copies the piece before it out. Beside the pieces
    stand how many have been written and read: each number has one writer, and the other rank polls
    it. (This needs writes to be seen in the order in which they were made, as on x86; elsewhere the
    check of what arrived would fail.)
    """

    PIECE_BYTES, PIECES = 2**18, 4
    HEAD_BYTES = 128  # two numbers, each with a cache line of its own
    QUEUE_BYTES = HEAD_BYTES + PIECES * PIECE_BYTES

    def __init__(self, pair, interface):
        rank, file = hvd.rank(), None
        if rank == pair[0]:
            file = os.memfd_create("bench_p2p")  # has no name that could stay behind
            os.truncate(file, 2 * self.QUEUE_BYTES)
        where = hvd.broadcast_object(f"/proc/{os.getpid()}/fd/{file}", root_rank=pair[0], name="file")
        self.bytes = None
        if rank in pair:
            if rank == pair[1]:
                file = os.open(where, os.O_RDWR)
            self.memory = mmap.mmap(file, 2 * self.QUEUE_BYTES)
            self.bytes = memoryview(self.memory)
            self.numbers = self.bytes.cast("Q")
            self.out = self.QUEUE_BYTES * pair.index(rank)
            self.into = self.QUEUE_BYTES - self.out
        barrier()  # the file is there until both have mapped it
        if rank in pair:
            os.close(file)

    message = Socket.message

    def send(self, message):
        for part, place in self._pieces(memoryview(message), self.out, self.PIECES, 0):
            self.bytes[place : place + len(part)] = part

    def receive(self, room):
        for part, place in self._pieces(memoryview(room), self.into, 0, 1):
            part[:] = self.bytes[place : place + len(part)]
        return room

    def _pieces(self, view, queue, ahead, mine):
        """Yield each part of a message and its place in the queue, as soon as it can be copied.

        The writer (`mine` 0) waits while it is as many pieces `ahead` as there are, the reader
        (`mine` 1) while it has read all that was written.
        """
        own, other = (queue + 64 * mine) // 8, (queue + 64 * (1 - mine)) // 8
        numbers = self.numbers
        for start in range(0, len(view), self.PIECE_BYTES):
            count = numbers[own]
            while count == numbers[other] + ahead:
                os.sched_yield()
            yield (
                view[start : start + self.PIECE_BYTES],
                queue + self.HEAD_BYTES + count % self.PIECES * self.PIECE_BYTES,
            )
            numbers[own] = count + 1

    def close(self):
        if self.bytes:
            self.numbers.release()
            self.bytes.release()
            self.memory.close()


class Broadcast:
    """Horovod's broadcast, back and forth, in a process set of a pair of ranks."""

    def __init__(self, pair, interface):
        self.pair = pair
        whole = hvd.size() == len(pair)  # then all ranks are a set already
        self.set = hvd.global_process_set if whole else hvd.add_process_set(list(pair))

    def message(self, size_bytes, value):
        return tf.fill([size_bytes], tf.constant(value, tf.uint8))

    def send(self, message):
        self._broadcast(message, hvd.rank())

    def receive(self, room):
        return self._broadcast(room, self.pair[hvd.rank() == self.pair[0]])

    def _broadcast(self, message, root):
        return hvd.broadcast(message, root_rank=root, process_set=self.set, name=f"from{root}.{len(message)}")

    def close(self):
        if self.set is not hvd.global_process_set:
            hvd.remove_process_set(self.set)


CHANNELS = {"tcp": Socket, "shared_memory": SharedMemory, "horovod": Broadcast}


# ---------------------------------------------------------------- to and from GPUs


def device_copies(source, target, size_bytes, config):
    """Time TensorFlow's copies of a tensor from one device of this process to another.

    `source` and `target` are "host", "GPU 0", "GPU 1", … Returns repeats and times, in which the
    start of an operation counts, as for all of TensorFlow's; the host's memory is what TensorFlow
    allocates for a tensor, not always pinned.
    """
    names = ["CPU:0" if end == "host" else end.replace(" ", ":") for end in (source, target)]
    with tf.device(names[0]):
        tensor = tf.ones([size_bytes // 4])

    def copy():
        tf.test.experimental.sync_devices()
        start = time.perf_counter()
        with tf.device(names[1]):
            tf.identity(tensor)
        tf.test.experimental.sync_devices()
        return time.perf_counter() - start

    count = repeats(config, [copy() for _ in range(WARM_UP)][-1])
    return {"repeats": count, "seconds": timing([copy() for _ in range(count)])}


if __name__ == "__main__":
    run(main, config)
