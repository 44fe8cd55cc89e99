"""This process's fork server: a child that has imported TensorFlow and Horovod and forks ranks on request.

TensorFlow takes two seconds to import, and a notebook launches many short runs. So the first `launch` of a script that
may import it starts a fork server (`ddl.start.fork_server`) in the background. The two are connected by a socket pair.
The supervisor of each run inherits this process's end and asks for ranks through it; if it gets none, its ranks start
cold.

The server is a child of this process, so it has the same user, namespaces, limits, control group and priorities. It
exits when this process has ended, or after ``DDL_WARM_IDLE_S`` seconds without a request.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from ddl.job.timeouts import idle_s
from ddl.records.paths import cache_dir

VARIABLE = "DDL_FORK_SERVER"  # the number of the socket that a supervisor inherits
ID_LENGTH = 20  # of a run's id
MARKS = ("DDL_RUN_ID", "DDL_RANKS_OF")  # by which `ddl.follow.processes` finds a run's processes

# Variables that an import of horovod.tensorflow reads (a test traces them), as prefixes, and exceptions: what the fork
# sets again, and what is read later.
READ_AT_IMPORT = tuple(
    """
    ABSL_ DISTUTILS_ FSSPEC_ GCS_ GFORTRAN_ GOTO HDF5_ HOME HOROVOD_AUTOTUNE_ KERAS_ KMP_ LANG LC_ LD_ LLVM_ MKL_ NPY_
    NUMPY_ OMP_ ONEDNN_ DNNL_ OPENBLAS_ OPENSSL_ PANDAS_ PATH PILLOW_ PROTOCOL_BUFFERS_ PSUTIL_ PYTHON SCIPY_
    SETUPTOOLS_ TEST_ TF_ WRAPT_ XLA_ ZENDNN_ """.split()
)
READ_LATER = ("OMP_NUM_THREADS", "PYTHONUNBUFFERED", "TF_CONFIG", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS")


def read_at_import(names: Iterable[str]) -> list[str]:
    """Return those variables that have no effect once TensorFlow and Horovod are imported."""
    return [name for name in names if name.startswith(READ_AT_IMPORT) and name not in READ_LATER]


class ForkServer:
    """A running fork server, and this process's end of the connection to it.

    `made_for` is the state of this process, as `_current_state` returns it, for which the server was started.
    """

    def __init__(self, made_for: tuple) -> None:
        idle_s()  # refuse an invalid value here, not in the background
        self.made_for = made_for
        self.socket, remote = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        log_path = cache_dir() / "fork-server.log"
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with remote, open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ddl.start.fork_server", str(remote.fileno())],
                cwd="/",
                env={**os.environ, **dict.fromkeys(MARKS, "-" * ID_LENGTH)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[remote.fileno()],
                start_new_session=True,
            )
        threading.Thread(target=self.process.wait, daemon=True).start()

    def is_ready(self) -> bool:
        """Return whether the server has done its imports: it has sent a word, which stays in the socket."""
        with contextlib.suppress(OSError):
            return self.process.poll() is None and bool(self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        return False


def can_import() -> bool:
    """Return whether the libraries that a fork server imports are there."""
    return all(find_spec(name) for name in ("horovod", "tensorflow"))


_server: ForkServer | None = None


def connection(start: bool = True) -> socket.socket | None:
    """Return the connection to this process's fork server, starting one if needed; None if it can't start.

    It may still be importing: requests wait until it is done. A server that failed to import is not started again.
    Without `start`, None unless a server is ready.
    """
    global _server
    made_for = _current_state()
    status = _server.process.poll() if _server else None
    if _server and (_server.made_for != made_for or (status is not None and status <= 0)):  # idle, or killed
        close()
    elif status:
        return None
    if not start:
        return _server.socket if _server and _server.is_ready() else None
    if not _server:
        try:
            _server = ForkServer(made_for)
        except OSError:  # such as a read-only home; ranks start cold
            return None
    return _server.socket


def close() -> None:
    """Close the connection to this process's fork server, if there is one; the server exits after its last fork."""
    global _server
    if _server:
        _server.socket.close()
        _server = None


def _current_state() -> tuple:
    """Return what a server is replaced for: this package's files, and what a child inherits of this process."""
    files = {str(path): path.stat().st_mtime_ns for path in Path(__file__).parents[1].rglob("*.py")}
    variables = {name: os.environ[name] for name in read_at_import(os.environ)}
    status = Path("/proc/self/status").read_text()  # os.umask can read the umask only by setting it
    inherited = re.findall("^(Umask|SigIgn|Cpus_allowed):(.*)", status, re.MULTILINE)
    limits = Path("/proc/self/limits").read_text()
    return os.getpid(), files, variables, inherited, limits
