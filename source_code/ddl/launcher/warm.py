"""Find, start and stop templates: processes that have imported TensorFlow and Horovod, whose forks become ranks.

A template (`ddl.rank.template`) serves whoever is like it in all that a fork cannot take over (`identity`): the same
user, environment but for what is `IGNORED`, namespaces, control group, limits and priorities. It listens on an abstract
socket, whose name is gone with it however it ends. Both ends ask the kernel for the other's user, and hang up on
anybody else.
"""

import hashlib
import json
import os
import re
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ddl.errors import CourseError
from ddl.launcher.processes import TEMPLATE, wait_until
from ddl.launcher.settings import idle_s
from ddl.records.paths import cache_dir

# Variables that may differ between a template and its forks, as names or as beginnings of names: what is read after
# the fork (by Horovod as it initialises, TensorFlow's contexts, NCCL, CUDA, tempfile, this package), what a fork sets
# anew (the interpreter's streams, OpenBLAS' threads), and what terminals, notebooks, make and pytest say of themselves.
IGNORED = (
    *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "TEMP", "TMP", "TMPDIR"),
    *("TF_CONFIG", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"),
    *("CLICOLOR", "FORCE_COLOR", "GIT_PAGER", "MPLBACKEND", "PAGER", "PYDEVD_USE_FRAME_EVAL"),
    *("COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID", "_", "MAKELEVEL", "MAKEFLAGS", "MFLAGS"),
)
IGNORED_BEGINNINGS = ("DDL_", "HOROVOD_", "JPY_", "NCCL_", "PYTEST_", "SSH_", "TERM_", "TMUX", "XDG_SESSION_")
READ_WHEN_LOADED = "HOROVOD_AUTOTUNE_"  # by Horovod's library
SETS = re.compile(
    r"""environ\s*\[([^]]*)\]\s*=[^=] | del\s+[\w.]*environ\s*\[([^]]*)\] | environ\s*\|=\s*\{([^}]*)\}
    | environ\s*\.\s*(?:update|setdefault|pop)\s*\(([^)]*)\) | putenv\s*\(([^)]*)\)""",
    re.VERBOSE,
)

PR_GET_TIMERSLACK = 30  # in /proc, only the main thread may read it without privileges
MOST = 3  # templates of one user at a time: each takes some 200 MB
NAME = r"@(ddl-warm-(\d+)-[0-9a-f]{32})$"
READY_S = 60.0  # how long a rank waits for a template that still imports
ANSWER_S = 5.0
LIMITS = {
    name: number for name, number in vars(resource).items() if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
}
STATUS = ("Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp", "Mems_allowed:", "THP_enabled")


class NoTemplate(CourseError, RuntimeError):
    """A template could not be started, or does not answer."""


def allowed(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ranks of this environment may come from a template: ``DDL_WARM=no``, Slurm's tasks and MPI's say no."""
    tasks = ("SLURM_STEP", "SLURM_PROCID", "OMPI_COMM_WORLD_", "PMI_", "PMIX_")
    wanted = sys.platform == "linux" and environment.get("DDL_WARM") != "no"
    return wanted and not any(name.startswith(tasks) for name in environment)


def matters(name: str) -> bool:
    """Whether a variable has to be the same in a template and in its forks."""
    ignored = name in IGNORED or name.startswith(IGNORED_BEGINNINGS)
    return name.startswith(READ_WHEN_LOADED) or not ignored


def set_by(script: str) -> str:
    """Name a variable that a script's text sets, and that matters; "" where there is none.

    An import that the script believes to come later would have read it.
    """
    changed = " ".join("".join(groups) for groups in SETS.findall(script))
    named = re.findall(r"""['"]([A-Z_][A-Z0-9_]*)['"]|\b([A-Z_][A-Z0-9_]*)\s*=""", changed)
    return next((name for pair in named for name in pair if name and (matters(name) or name == "OMP_NUM_THREADS")), "")


def identity(environment: Mapping[str, str] = os.environ) -> dict[str, object]:
    """Everything that a fork inherits, and cannot change or be seen to have changed."""
    import ctypes

    import psutil

    libc, namespaces = ctypes.CDLL(None), "/proc/self/ns"
    return {
        "python": [sys.version, sys.prefix],
        "environment": {name: environment[name] for name in sorted(environment) if matters(name)},
        "status": [line for line in _text("/proc/self/status").splitlines() if line.startswith(STATUS)],
        "namespaces": [os.readlink(f"{namespaces}/{name}") for name in sorted(os.listdir(namespaces))],
        "root": os.readlink("/proc/self/root"),
        "cgroup": _text("/proc/self/cgroup"),
        "limits": {name: resource.getrlimit(number)[1] for name, number in LIMITS.items()},
        "scheduling": [
            os.getpriority(os.PRIO_PROCESS, 0),
            os.sched_getscheduler(0),
            os.sched_getparam(0).sched_priority,
            _text("/proc/self/oom_score_adj").strip(),
            libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0),
            *psutil.Process().ionice(),
        ],
        "personality": libc.personality(ctypes.c_ulong(0xFFFFFFFF)),  # which asks; containers allow no wider number
        "memory": _text("/proc/self/numa_maps").partition("\n")[0].split()[1:2],  # the policy of its first part
    }


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def address(attributes: Mapping[str, object]) -> str:
    """The name of the socket of the template for processes of this identity."""
    return f"\0ddl-warm-{os.getuid()}-{hashlib.sha256(json.dumps(attributes).encode()).hexdigest()[:32]}"


# ---------------------------------------------------------------- talking


def connect(name: str) -> socket.socket | None:
    """Connect to a template of this user; None where there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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
    """Send a message, with open files if there are any; OSError where it is longer than the kernel takes at once."""
    socket.send_fds(connection, [json.dumps(message).encode("utf-8", "surrogateescape")], list(descriptors))


def receive(connection: socket.socket, descriptors: int = 0) -> tuple[dict, list[int]] | None:
    """Receive a message and its open files; None where the other end is gone."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 20, descriptors)
    return (json.loads(data.decode("utf-8", "surrogateescape")), files) if data else None


# ---------------------------------------------------------------- starting and stopping


_started: list[subprocess.Popen] = []  # by `ensure`, in this process


def ensure(environment: Mapping[str, str] = os.environ) -> subprocess.Popen | None:
    """Start a template for ranks of this process in the background and return it, unless there is one or enough.

    One that has failed is not tried again.
    """
    if not allowed(environment) or any(process.poll() for process in _started):
        return None
    with suppress(OSError):  # then ranks start cold
        name = address(identity(environment))
        if not _listens(name) and sum(1 for _ in _templates()) < MOST:
            process = start(environment)
            _started.append(process)
            # Until it listens, ranks would not find it; while it imports, they wait for it.
            wait_until(lambda: process.poll() is not None or _listens(name), ANSWER_S, 0.02)
            return process
    return None


def start(environment: Mapping[str, str] = os.environ) -> subprocess.Popen:
    """Start a template; it answers once it has imported. What it prints goes to ``warm.log`` in the cache folder."""
    idle_s(environment)  # what it can't read is refused here
    path = cache_dir() / "warm.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as log:
        if log.tell() > 1 << 16:
            log.truncate(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "ddl.rank.template"],
            cwd="/",
            env=template_environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def template_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a template gets of these: what all its ranks have, and this package's settings."""
    of_a_run = ("DDL_RUN_", "DDL_RANKS_", "DDL_LIFELINE")
    shared = {
        name: value
        for name, value in environment.items()
        if matters(name) or (name.startswith("DDL_") and not name.startswith(of_a_run))
    }
    return {**shared, TEMPLATE: "1"}


def _templates() -> Iterator[tuple[str, socket.socket]]:
    """This user's templates in this network namespace: the name of each, and a connection to it."""
    listed = (re.search(NAME, line) for line in _text("/proc/net/unix").splitlines())
    for name in sorted({f"\0{found[1]}" for found in listed if found and found[2] == str(os.getuid())}):
        if connection := connect(name):  # anybody can bind such a name
            with connection:
                yield name, connection


def _listens(name: str) -> bool:
    connection = connect(name)
    if connection:
        connection.close()
    return connection is not None


def running() -> list[dict]:
    """What each of this user's templates says of itself; one that still imports says only its process.

    ``{"pid": int, "here": bool, "ready": bool, "served": int, "active": int, "memory_bytes": int, "idle_s": s}``;
    `here` is the one that serves this process.
    """
    of_this_process = address(identity())
    found = []
    for name, connection in _templates():
        connection.settimeout(0.2)
        answer: dict = {"pid": peer(connection)[0], "here": name == of_this_process, "ready": False}
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
    for _, connection in _templates():
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
    process = ensure()
    try:
        yield
    finally:
        if process:
            stop({process.pid})


def await_ready(timeout_s: float = READY_S) -> dict:
    """Wait until this process's template answers, starting it if needed; return what it says of itself."""
    log = cache_dir() / "warm.log"
    process = None if any(template["here"] for template in running()) else start()
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        status = process.poll() if process else None
        here = [template for template in running() if template["here"]]
        if here and here[0]["ready"]:
            return here[0]
        if status is not None and not here:  # another one may have been faster
            raise NoTemplate(f"the template ended while it imported (exit {status}): see {log}")
        time.sleep(0.1)
    raise NoTemplate(f"the template has not answered for {timeout_s:.0f} s: see {log}")
