"""Horovod's rendezvous server, where Gloo's ranks learn each other's addresses."""

__all__ = ["host_plan", "server", "widen"]

# All ranks come at once. Python's default keeps five callers waiting and drops the rest, which
# call again after a second, then two, then four: with eight ranks a start took seconds longer.
BACKLOG = 1024


def widen():
    """Let every rendezvous server of this process keep more callers waiting."""
    from horovod.runner.http.http_server import RendezvousHTTPServer

    RendezvousHTTPServer.request_queue_size = BACKLOG


def server(size, nodes):
    """Start a server for `size` ranks, evenly on `nodes`; return it and its port."""
    from horovod.runner.http.http_server import RendezvousServer

    widen()
    started = RendezvousServer()
    port = started.start()
    started.init(host_plan(size, nodes))
    return started, port


def host_plan(size, nodes):
    """Horovod's own list of who sits where, for its rendezvous server.

    The server only counts the ranks of each group (all, of one node, across nodes): what the nodes
    are called there is of no account, as long as the ranks say the same.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts

    hosts = ",".join(f"node{number}:{size // nodes}" for number in range(nodes))
    return get_host_assignments(parse_hosts(hosts), size)
