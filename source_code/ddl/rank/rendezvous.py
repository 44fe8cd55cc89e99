"""Horovod's rendezvous server, where Gloo's ranks learn each other's addresses.

Started here for ranks that Horovod's launcher cannot start. Ranks of tf.distribute and PyTorch keep their addresses in
it, too, whoever has started it: stock horovodrun included.
"""

import os
from typing import TYPE_CHECKING

from ddl.launcher.commands import GLOO_TIMEOUT_S

if TYPE_CHECKING:
    from horovod.runner.http.http_server import RendezvousServer

# All ranks come at once. Python's default keeps five callers waiting and drops the rest, which
# call again after a second, then two, then four: with eight ranks a start took seconds longer.
BACKLOG = 1024


def enlarge_backlog() -> None:
    """Let all servers that this process starts from here on, Horovod's launcher's too, keep many callers waiting."""
    from horovod.runner.http.http_server import RendezvousHTTPServer

    RendezvousHTTPServer.request_queue_size = BACKLOG


def server(size: int, nodes: int) -> "tuple[RendezvousServer, int]":
    """Start a server for `size` ranks on `nodes`, filled one after the other; return it and its port."""
    from horovod.runner.http.http_server import RendezvousServer

    enlarge_backlog()
    started = RendezvousServer()
    port = started.start()
    started.init(host_plan(size, nodes))
    return started, port


def host_plan(size: int, nodes: int) -> list:
    """Horovod's own list of which rank is on which node, for its rendezvous server.

    The server only counts the ranks of each group (all, of one node, across nodes). Any names will
    do for the nodes, as long as the ranks use the same (`Slot.horovod`).
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts

    per_node = -(-size // nodes)  # tasks of tf.distribute may fill the last node in part
    hosts = ",".join(f"node{number}:{per_node}" for number in range(nodes))
    return get_host_assignments(parse_hosts(hosts), size)


def variables(address: str, port: int | str) -> dict[str, str]:
    """What a rank needs to find a server."""
    return {"HOROVOD_GLOO_RENDEZVOUS_ADDR": address, "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)}


def through(controller: str, interface: str = "") -> dict[str, str]:
    """What Horovod needs to join ranks through a controller, "gloo" (and its network interface) or "mpi"."""
    chosen = {"HOROVOD_CONTROLLER": controller, "HOROVOD_CPU_OPERATIONS": controller}
    if controller == "mpi":
        return chosen
    return {**chosen, "HOROVOD_GLOO_IFACE": interface, "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_S)}


def reachable() -> bool:
    """Whether this process knows such a server."""
    return "HOROVOD_GLOO_RENDEZVOUS_ADDR" in os.environ


def write(key: str, text: str) -> None:
    """Keep a text in the server, for all ranks."""
    _ask(key, text.encode(), "PUT")


def read(key: str) -> str | None:
    """Return a text that a rank has kept in the server; None if there is none."""
    from urllib.error import HTTPError

    try:
        return _ask(key, None, "GET").decode()
    except HTTPError:
        return None


def _ask(key, data, method):
    from urllib.request import ProxyHandler, Request, build_opener

    address, port = (os.environ[f"HOROVOD_GLOO_RENDEZVOUS_{name}"] for name in ("ADDR", "PORT"))
    request = Request(f"http://{address}:{port}/ddl/{key}", data=data, method=method)
    with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
        return answer.read()
