"""Point-to-point messages between ranks, which Horovod lacks."""

import pickle
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any

from course.shared.sockets import connect, interface_between_ranks


class Mail:
    """Messages over TCP: `send` doesn't wait for the receiver, and `receive` waits for the message of a name.

    All ranks make one, after `hvd.init`.
    """

    def __init__(self, rank: int):
        self._rank, self._arrivals, self._unread = rank, SimpleQueue(), {}
        self._others = {}
        for other, connection in connect(interface_between_ranks()).items():
            connection.setblocking(True)  # a message may take any time: the sender computes
            self._others[other] = Connection(connection.detach())
            Thread(target=self._read, args=[self._others[other]], daemon=True).start()

    def send(self, rank: int, name: tuple, values: Any) -> None:
        """Send values to a rank, or to this one, under a name."""
        if rank == self._rank:
            self._unread[name] = values
        else:
            self._others[rank].send_bytes(pickle.dumps((name, values)))

    def receive(self, name: tuple) -> Any:
        """Return the values of this name. Raises EOFError or OSError if a rank has ended before."""
        while name not in self._unread:
            arrived, values = self._arrivals.get()
            if isinstance(values, Exception):
                raise values
            self._unread[arrived] = values
        return self._unread.pop(name)

    def _read(self, connection):
        while True:
            try:
                self._arrivals.put(pickle.loads(connection.recv_bytes()))
            except (EOFError, OSError) as problem:
                return self._arrivals.put((None, problem))
