"""TCP connections between the ranks of a run."""

import functools
import os
import socket

import horovod.tensorflow as hvd

from course.shared.bench import address

PATIENCE_S = 60.0  # timeout for another rank to connect or answer


def interface_between_ranks() -> str:
    """Return the network interface: loopback inside a host, and Horovod's between hosts."""
    return "lo" if hvd.cross_size() == 1 else os.environ.get("HOROVOD_GLOO_IFACE", "")


@functools.cache
def connect(interface: str) -> dict[int, socket.socket]:
    """Return TCP connections to all other ranks; all ranks call this. An empty `interface` means any."""
    host, others = address(interface) if interface else socket.gethostname(), {}
    source = (host, 0) if interface else None
    with socket.create_server((host, 0), backlog=hvd.size()) as server:
        server.settimeout(PATIENCE_S)
        servers = hvd.allgather_object(server.getsockname())
        for rank in range(hvd.rank()):
            others[rank] = socket.create_connection(servers[rank], PATIENCE_S, source_address=source)
            others[rank].sendall(hvd.rank().to_bytes(4, "big"))
        for _ in range(hvd.rank() + 1, hvd.size()):
            other, _ = server.accept()
            others[int.from_bytes(other.recv(4, socket.MSG_WAITALL), "big")] = other
    for other in others.values():
        other.settimeout(PATIENCE_S)
        other.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return others
