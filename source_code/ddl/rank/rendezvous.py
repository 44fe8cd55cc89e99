"""Horovod's rendezvous server, where Gloo's ranks learn each other's addresses.

Ranks of tf.distribute and PyTorch keep their addresses in it, too, whoever has started it: stock horovodrun included.
"""

import os
from typing import TYPE_CHECKING

from ddl.launcher.commands import GLOO_TIMEOUT_S
from ddl.rank.slot import slots

if TYPE_CHECKING:
    from horovod.runner.http.http_server import RendezvousServer

# All ranks come at once. Python's default keeps five callers waiting and drops the rest, which
# call again after a second, then two, then four: with eight ranks a start took seconds longer.
BACKLOG = 1024


def server(size: int, nodes: int) -> "tuple[RendezvousServer, int]":
    """Start a server for `size` ranks on `nodes`, filled one after the other; return it and its port."""
    from horovod.runner.http.http_server import RendezvousHTTPServer, RendezvousServer

    RendezvousHTTPServer.request_queue_size = BACKLOG
    started = RendezvousServer()
    port = started.start()
    started.init(slots(size, nodes))
    return started, port


def variables(address: str, port: int | str) -> dict[str, str]:
    """What a rank needs to find a server."""
    return {"HOROVOD_GLOO_RENDEZVOUS_ADDR": address, "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port)}


def through(controller: str, interface: str = "") -> dict[str, str]:
    """What Horovod needs to join ranks through a controller, "gloo" (and its network interface) or "mpi"."""
    chosen = {"HOROVOD_CONTROLLER": controller, "HOROVOD_CPU_OPERATIONS": controller}
    if controller == "mpi":
        return chosen
    interfaces = dict.fromkeys(("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME"), interface)
    return {**chosen, **interfaces, "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_S)}


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
