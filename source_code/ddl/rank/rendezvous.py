"""Horovod's rendezvous server, where Gloo's ranks learn each other's addresses."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horovod.runner.http.http_server import RendezvousServer

__all__ = ["BACKLOG", "host_plan", "replaced", "server"]

# All ranks come at once. Python's default keeps five callers waiting and drops the rest, which
# call again after a second, then two, then four: with eight ranks a start took seconds longer.
BACKLOG = 1024


@contextlib.contextmanager
def replaced(*changes: tuple[object, str, object]) -> Iterator[None]:
    """Change attributes, each given as (object, name, value), and put them back at the end."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in changes:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, value)
        yield


def server(size: int, nodes: int) -> "tuple[RendezvousServer, int]":
    """Start a server for `size` ranks, evenly on `nodes`; return it and its port."""
    from horovod.runner.http.http_server import RendezvousHTTPServer, RendezvousServer

    started = RendezvousServer()
    with replaced((RendezvousHTTPServer, "request_queue_size", BACKLOG)):
        port = started.start()
    started.init(host_plan(size, nodes))
    return started, port


def host_plan(size: int, nodes: int) -> list:
    """Horovod's own list of which rank is on which node, for its rendezvous server.

    The server only counts the ranks of each group (all, of one node, across nodes). Any names will
    do for the nodes, as long as the ranks use the same (`Place.horovod`).
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts

    hosts = ",".join(f"node{number}:{size // nodes}" for number in range(nodes))
    return get_host_assignments(parse_hosts(hosts), size)
