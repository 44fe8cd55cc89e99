"""Each rank's slot, and the rendezvous server, through which ranks learn each other's addresses.

Horovod's ranks need Horovod's own server. Those of tf.distribute and PyTorch keep texts in it too, under stock
horovodrun; launched here, they have a server that does no more, and need no Horovod.
"""

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddl.job.timeouts import GLOO_TIMEOUT_S

if TYPE_CHECKING:
    from http.server import HTTPServer
    from typing import Self  # from Python 3.11 on

# All ranks connect at once. Python's default queue holds five connections and drops the rest, which are retried after
# one second, then two, then four: with eight ranks, a start took seconds longer.
BACKLOG = 1024
DAY_S = 86_400
ADDRESS, PORT = "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT"
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES")
HOROVOD = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "hostname")


@dataclass(frozen=True)
class Slot:
    """One rank's place among `size` ranks; in Horovod's terms, it is on node `cross_rank` of `cross_size`.

    Nodes are filled one after the other.
    """

    rank: int
    size: int
    local_rank: int
    cross_rank: int
    cross_size: int

    @classmethod
    def here(cls, variables: Mapping[str, str] = os.environ) -> "Self":
        """Return the slot of this Slurm task from its environment."""
        return cls(*(int(variables[name]) for name in SLURM))

    @property
    def local_size(self) -> int:
        return self.size // self.cross_size

    @property
    def hostname(self) -> str:
        return f"node{self.cross_rank}"  # any name that the ranks of a node share

    @property
    def horovod(self) -> dict[str, str]:
        """Horovod's variables: HOROVOD_RANK, HOROVOD_SIZE and others."""
        return {f"HOROVOD_{name.upper()}": str(getattr(self, name)) for name in HOROVOD}


def slots(ranks: int, nodes: int) -> list[Slot]:
    """Return every rank's slot; the last node may have fewer ranks."""
    per_node = -(-ranks // nodes)
    return [Slot(rank, ranks, rank % per_node, rank // per_node, nodes) for rank in range(ranks)]


def listen(address: str = "") -> socket.socket:
    """Return a socket that listens on a free port of this address only, by default of all of this host's.

    Ranks that connect wait until `serve` answers, so they can start while it imports Horovod's server, for 60 ms.
    """
    listening = socket.socket()
    listening.bind((address, 0))
    listening.listen(BACKLOG)
    return listening


def use(listening: socket.socket) -> None:
    """Make Horovod's server, which would listen on every address and has no passwords, use this socket."""
    from horovod.runner.http.http_server import RendezvousHTTPServer

    def server_bind(server: RendezvousHTTPServer) -> None:
        server.socket.close()
        server.socket, server.server_address = listening, listening.getsockname()

    RendezvousHTTPServer.server_bind, RendezvousHTTPServer.request_queue_size = server_bind, BACKLOG


def serve(listening: socket.socket, size: int, nodes: int, cluster: str = "horovod") -> "HTTPServer":
    """Start the server on this socket for `size` ranks on `nodes`, which are filled one after the other."""
    if cluster == "horovod":
        from horovod.runner.http.http_server import RendezvousHTTPServer

        use(listening)
        server = RendezvousHTTPServer(("", 0), _handler(), verbose=0)
        server.init(slots(size, nodes))  # before it serves, as it forgets what ranks have said
    else:
        server = _text_server(listening)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _handler() -> type:
    """Return Horovod's handler, which forgets a scope's addresses when all ranks have left it.

    Stock, the first scope to end makes it forget who has left the others, and their addresses stay: ranks that connect
    again may read an old one.
    """
    from horovod.runner.http.http_server import RendezvousHandler

    class Handler(RendezvousHandler):
        def do_DELETE(self) -> None:
            _, scope, key = self.path.split("/")
            if scope not in self.server.scope_size:
                return super().do_DELETE()
            with self.server.finished_list_lock, self.server.cache_lock:
                left = self.server.finished_list[scope]
                left.append(key)
                if len(left) == self.server.scope_size[scope]:
                    self.server.cache.pop(scope, None)
                    left.clear()
            return self.send_status_code(200)

    return Handler


def _text_server(listening: socket.socket) -> "HTTPServer":
    """Return a server that keeps a text for each path: PUT writes it, GET reads it."""
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    texts: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            texts[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200, b"")

        def do_GET(self) -> None:
            self._answer(200 if self.path in texts else 404, texts.get(self.path, b""))

        def _answer(self, status: int, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(listening.getsockname(), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listening
    return server


def variables(address: str, port: int | str) -> dict[str, str]:
    """Return the variables that tell a rank where the server is."""
    return {ADDRESS: address, PORT: str(port)}


def through(controller: str, interface: str = "", debugging: bool = False) -> dict[str, str]:
    """Return the variables that tell Horovod how to connect ranks: "gloo" and its network interface, or "mpi".

    With `debugging`, ranks wait up to a day for a rank in the debugger.
    """
    chosen = {"HOROVOD_CONTROLLER": controller, "HOROVOD_CPU_OPERATIONS": controller}
    if controller == "mpi":
        return chosen
    interfaces = dict.fromkeys(("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME"), interface)
    return {**chosen, **interfaces, "HOROVOD_GLOO_TIMEOUT_SECONDS": str(DAY_S if debugging else GLOO_TIMEOUT_S)}


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

    request = Request(f"http://{os.environ[ADDRESS]}:{os.environ[PORT]}/ddl/{key}", data=data, method=method)
    with build_opener(ProxyHandler({})).open(request, timeout=30) as answer:
        return answer.read()
