"""Channels between a pair of ranks, for `bench_p2p.py`, and a barrier for all."""

import mmap
import os

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from course.shared.sockets import connect


def barrier() -> None:
    """Wait for all ranks."""
    hvd.allreduce(tf.zeros([1]), name="barrier")


class Socket:
    """A TCP connection between a pair of ranks. All ranks create it, because all connections are made at once."""

    def __init__(self, pair, interface):
        connections = connect(interface)
        if hvd.rank() in pair:
            self.socket = connections[sum(pair) - hvd.rank()]

    def message(self, size_bytes, value):
        return np.full(size_bytes, value, np.uint8)

    def send(self, message):
        self.socket.sendall(message)

    def receive(self, buffer):
        view, received = memoryview(buffer), 0
        while received < len(view):
            count = self.socket.recv_into(view[received:])
            if not count:
                raise ConnectionError(
                    "the other rank closed its end of the socket: its log, or its error file, says why"
                )
            received += count
        return buffer

    def close(self):
        """Keep the connections open, because other pairs share them."""


class SharedMemory:
    """Two queues in memory shared by a pair of ranks, one for each direction.

    One rank copies a piece in while the other copies the previous piece out. The queue also holds the counts of written
    and read pieces: each count has one writer, and the other rank polls it. (This relies on the memory ordering of x86;
    on other processors, the check of the received data would fail.)
    """

    PIECE_BYTES, PIECES = 2**18, 4
    HEAD_BYTES = 128  # two counters in separate cache lines
    QUEUE_BYTES = HEAD_BYTES + PIECES * PIECE_BYTES

    def __init__(self, pair, interface):
        rank, file = hvd.rank(), None
        if rank == pair[0]:
            file = os.memfd_create("bench_p2p")  # anonymous, so no file is left behind
            os.truncate(file, 2 * self.QUEUE_BYTES)
        path = hvd.broadcast_object(f"/proc/{os.getpid()}/fd/{file}", root_rank=pair[0], name="file")
        self.bytes = None
        if rank in pair:
            if rank == pair[1]:
                file = os.open(path, os.O_RDWR)
            self.memory = mmap.mmap(file, 2 * self.QUEUE_BYTES)
            self.bytes = memoryview(self.memory)
            self.numbers = self.bytes.cast("Q")
            self.outgoing = self.QUEUE_BYTES * pair.index(rank)
            self.incoming = self.QUEUE_BYTES - self.outgoing
        barrier()  # keep the file until both have mapped it
        if rank in pair:
            os.close(file)

    message = Socket.message

    def send(self, message):
        for part, start in self._pieces(memoryview(message), self.outgoing, self.PIECES, 0):
            self.bytes[start : start + len(part)] = part

    def receive(self, buffer):
        for part, start in self._pieces(memoryview(buffer), self.incoming, 0, 1):
            part[:] = self.bytes[start : start + len(part)]
        return buffer

    def _pieces(self, view, queue, ahead, mine):
        """Yield each part of a message and its offset in the queue, as soon as it can be copied.

        The writer (`mine` 0) waits while the queue is full, the reader (`mine` 1) while it is empty.
        """
        own, other = (queue + 64 * mine) // 8, (queue + 64 * (1 - mine)) // 8
        numbers = self.numbers
        for start in range(0, len(view), self.PIECE_BYTES):
            count = numbers[own]
            while count == numbers[other] + ahead:
                os.sched_yield()
            piece = queue + self.HEAD_BYTES + count % self.PIECES * self.PIECE_BYTES
            yield view[start : start + self.PIECE_BYTES], piece
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
        whole = hvd.size() == len(pair)  # all ranks already form a set
        self.set = hvd.global_process_set if whole else hvd.add_process_set(list(pair))

    def message(self, size_bytes, value):
        return tf.fill([size_bytes], tf.constant(value, tf.uint8))

    def send(self, message):
        self._broadcast(message, hvd.rank())

    def receive(self, buffer):
        return self._broadcast(buffer, self.pair[hvd.rank() == self.pair[0]])

    def _broadcast(self, message, root):
        return hvd.broadcast(message, root_rank=root, process_set=self.set, name=f"from{root}.{len(message)}")

    def close(self):
        if self.set is not hvd.global_process_set:
            hvd.remove_process_set(self.set)
