"""Find, start and stop templates: processes that have imported TensorFlow and Horovod, whose forks become ranks.

A template (`ddl.rank.template`) serves whatever it can stand for: processes of the same user, environment, namespaces,
control group and limits whose `AT_IMPORT` variables are the same (`identity`). It listens on an abstract socket, whose
name is gone with it however it ends. Both ends ask the kernel for the other's user, and hang up on anybody else.

Every rank imports this before its script: the standard library only.
"""

import json
import os
import re
import resource
import socket
import struct
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ddl.errors import CourseError

TYPE_CHECKING = False  # so that typing is not imported, either
if TYPE_CHECKING:
    import subprocess

__all__ = [
    "AT_IMPORT",
    "LATER",
    "MOST",
    "NoTemplate",
    "address",
    "allowed",
    "await_ready",
    "connect",
    "describe",
    "ensure",
    "identity",
    "kept",
    "named_at_import",
    "receive",
    "running",
    "send",
    "start",
    "stop",
]

# Variables that the interpreter, TensorFlow, oneDNN, OpenMP, BLAS, XLA and what else is imported read while they are
# loaded, as names or as beginnings of names. A test watches every read of an import and compares.
AT_IMPORT = (
    *("ABSL_", "DISABLE_HOST_SEND_RECV_REGISTRATION", "DNNL_", "ENABLE_RUNTIME_UPTIME_TELEMETRY", "FSSPEC_"),
    *("GCS_", "GFORTRAN_", "GLIBC_TUNABLES", "GOMP_", "GOTO", "GRPC_", "HDF5_", "HOME", "HOROVOD_AUTOTUNE_"),
    *("KERAS_", "KMP_", "LANG", "LC_", "LD_", "LLVM_", "MALLOC_", "MKL_", "NPY_", "NUMPY_", "OMP_", "ONEDNN_"),
    *("OPENBLAS_", "OPENSSL_", "PANDAS_", "PILLOW_", "PROTOCOL_BUFFERS_", "PSUTIL_", "PYTHON", "SCIPY_"),
    *("SETUPTOOLS_", "SLURM_JOB_ID", "TEST_", "TF_", "TZ", "WRAPT_", "XLA_", "ZENDNN_"),
)
# Of these, what is read after the fork as well (TensorFlow's contexts), or what a fork sets anew (the interpreter's
# streams, OpenBLAS' threads).
LATER = ("OMP_NUM_THREADS", "PYTHONUNBUFFERED", "TF_CONFIG", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS")
# What is read and does not matter: by programs that an import runs, for documentation and debugging, or again later.
IGNORED = (
    *("COLUMNS", "DISTUTILS_DEBUG", "LIBSMARTCOLS_", "LINES", "LSCPU_", "PATH", "PY_SAX_PARSER"),
    *("SOURCE_DATE_EPOCH", "TEMP", "TMP", "ULPATH_DEBUG", "_PYTHON_", "__PYVENV_LAUNCHER__"),
)

MOST = 3  # templates of one user at a time: each takes some 200 MB
NAME = r"@(ddl-warm-(\d+)-[0-9a-f]{8})$"
READY_S = 60.0  # how long a rank waits for a template that still imports
ANSWER_S = 5.0
LIMITS = {
    name: number for name, number in vars(resource).items() if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
}
STATUS = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp")


class NoTemplate(CourseError, RuntimeError):
    """A template could not be started, or does not answer."""


def allowed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ranks of this environment may come from a template: ``DDL_WARM=no``, Slurm's tasks and MPI's say no."""
    return (
        sys.platform == "linux"
        and environment.get("DDL_WARM", "yes") != "no"
        and not any(
            name.startswith(("SLURM_STEP", "SLURM_PROCID", "OMPI_COMM_WORLD_", "PMI_", "PMIX_")) for name in environment
        )
    )


def read_at_import(name: str) -> bool:
    """Whether a variable is one that an import may read, and does nothing afterwards."""
    return name not in LATER and name.startswith(AT_IMPORT)


def named_at_import(script: str) -> str:
    """Name a variable in a script's text that an import would read: it may set it first; "" where there is none."""
    quoted = re.findall(rf"""['"]((?:{"|".join(AT_IMPORT)})[A-Z0-9_]*)['"]""", script)
    return next((name for name in quoted if name not in LATER or name == "OMP_NUM_THREADS"), "")


def identity(environment: Mapping[str, str] = os.environ) -> dict[str, object]:
    """Everything that a fork inherits, and cannot change or be seen to have changed."""
    namespaces = "/proc/self/ns"
    return {
        "python": [sys.version, sys.prefix],
        "environment": {name: environment[name] for name in sorted(environment) if read_at_import(name)},
        "status": [line for line in _text("/proc/self/status").splitlines() if line.startswith(STATUS)],
        "namespaces": [os.readlink(f"{namespaces}/{name}") for name in sorted(os.listdir(namespaces))],
        "root": os.readlink("/proc/self/root"),
        "cgroup": _text("/proc/self/cgroup"),
        "limits": {name: resource.getrlimit(number)[1] for name, number in LIMITS.items()},
        "scheduling": [
            os.getpriority(os.PRIO_PROCESS, 0),
            os.sched_getscheduler(0),
            _text("/proc/self/oom_score_adj").strip(),
        ],
    }


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def address(own: Mapping[str, object]) -> str:
    """The name of the socket of the template for processes of this identity; it asks for all of it, too."""
    return f"\0ddl-warm-{os.getuid()}-{zlib.crc32(json.dumps(own).encode()):08x}"


# ---------------------------------------------------------------- talking


def connect(name: str) -> socket.socket | None:
    """Connect to a template of this user; None where there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(name)
        if peer(connection)[1] == os.getuid():
            return connection
    except OSError:
        pass
    connection.close()
    return None


def peer(connection: socket.socket) -> tuple[int, int]:
    """The process and user at the other end."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, user


def send(connection: socket.socket, message: dict, descriptors: Iterable[int] = ()) -> None:
    """Send a message, with open files if there are any."""
    data = json.dumps(message).encode("utf-8", "surrogateescape")
    head = struct.pack("!Q", len(data))
    if descriptors:
        socket.send_fds(connection, [head], list(descriptors))
    else:
        connection.sendall(head)
    connection.sendall(data)


def receive(connection: socket.socket, descriptors: int = 0) -> tuple[dict, list[int]] | None:
    """Receive a message and its open files; None where the other end is gone."""
    head, files = b"", []
    while len(head) < 8:
        data, new, _, _ = socket.recv_fds(connection, 8 - len(head), descriptors)
        files += new
        if not data:
            return None
        head += data
    (size,) = struct.unpack("!Q", head)
    body = bytearray()
    while len(body) < size:
        data = connection.recv(min(1 << 16, size - len(body)))
        if not data:
            return None
        body += data
    return json.loads(body.decode("utf-8", "surrogateescape")), files


# ---------------------------------------------------------------- starting and stopping


_started: "list[subprocess.Popen]" = []  # by `ensure`, in this process


def ensure(environment: Mapping[str, str] = os.environ) -> None:
    """Start a template for ranks of this process in the background, unless there is one or there are enough.

    One that has failed is not tried again.
    """
    if not allowed(environment) or any(process.poll() for process in _started):
        return
    with suppress(OSError):  # then ranks start cold
        if found := connect(address(identity(environment))):
            found.close()
        elif len(_names()) < MOST:
            _started.append(start(environment))


def start(environment: Mapping[str, str] = os.environ) -> "subprocess.Popen":
    """Start a template; it answers once it has imported. What it prints goes to ``warm.log`` in the cache folder."""
    import subprocess
    import threading

    path = _log()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as log:
        if log.tell() > 1 << 16:
            log.truncate(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "ddl.rank.template"],
            cwd="/",
            env={name: value for name, value in environment.items() if not name.startswith(("DDL_RUN_", "DDL_RANKS_"))},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def _log() -> str:
    """Where templates print."""
    from ddl.records.paths import cache_dir

    return str(cache_dir() / "warm.log")


def _names() -> list[str]:
    """The sockets of this user's templates, in this network namespace."""
    found = (re.search(NAME, line) for line in _text("/proc/net/unix").splitlines())
    return sorted({f"\0{match[1]}" for match in found if match and match[2] == str(os.getuid())})


def running() -> list[dict]:
    """What each of this user's templates says of itself; one that still imports says only its process.

    ``{"pid": int, "here": bool, "ready": bool, "prefix": str, "since": s, "served": int, "active": int,
    "memory_bytes": int, "idle_s": s}``; `here` is the one that serves this process.
    """
    mine = address(identity())
    found = []
    for name in _names():
        if connection := connect(name):
            with connection:
                connection.settimeout(0.2)
                answer: dict = {"pid": peer(connection)[0], "here": name == mine, "ready": False}
                with suppress(OSError, ValueError):
                    send(connection, {"do": "status"})
                    if received := receive(connection):
                        answer |= received[0] | {"ready": True}
                found.append(answer)
    return found


def describe(template: dict) -> str:
    """One line about a template, as `running` gives it."""
    other = "" if template["here"] else ", for another environment or other variables than here"
    if not template["ready"]:
        return f"process {template['pid']} imports TensorFlow{other}"
    return (
        f"process {template['pid']} keeps TensorFlow imported{other}: {template['memory_bytes'] / 2**20:.0f} MiB, "
        f"{template['served']} starts so far, ends {template['idle_s'] / 60:.3g} min after the last"
    )


def stop(pids: Iterable[int] | None = None) -> list[int]:
    """End templates of this user, all or some: each at once, or when its last rank has ended; return their ids."""
    ended = []
    for name in _names():
        connection = connect(name)
        if not connection:
            continue
        with connection:
            pid = peer(connection)[0]
            if pids is not None and pid not in pids:
                continue
            connection.settimeout(READY_S)
            with suppress(OSError, ValueError):
                send(connection, {"do": "stop"})
                answer = receive(connection)
                if answer and answer[0].get("active") == 0:
                    connection.settimeout(ANSWER_S)
                    connection.recv(1)  # returns when it is gone
            ended.append(pid)
    return ended


@contextmanager
def kept() -> Iterator[None]:
    """Have many runs start from a template: the one that is there, or one that ends with them."""
    before = {template["pid"] for template in running()}
    ensure()
    try:
        yield
    finally:
        stop({template["pid"] for template in running() if template["here"]} - before)


def await_ready(timeout_s: float = READY_S) -> dict:
    """Wait until this process's template answers, starting it if needed; return what it says of itself.

    Raises
    ------
    NoTemplate
        If it ends, or says nothing for `timeout_s`.
    """
    process = None if any(template["here"] for template in running()) else start()
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        for template in running():
            if template["here"] and template["ready"]:
                return template
        if process and process.poll() is not None:
            raise NoTemplate(f"the template ended while it imported (exit {process.returncode}): see {_log()}")
        time.sleep(0.1)
    raise NoTemplate(f"the template has not answered for {timeout_s:.0f} s: see {_log()}")
