"""The fork server: ``python -m ddl.start.fork_server SOCKET`` imports TensorFlow once and forks ranks on request.

It initializes nothing, because neither threads nor a GPU's driver survive a fork: no TensorFlow context, no Horovod.
Its forks share one thing that cold starts don't: the seed of Python's string hashes.

Supervisors send requests through the socket that they inherited from the launching process
(`ddl.start.fork_client`). Each request carries a new socket for the answer: the fork's process id, and later
its exit status. If that socket closes, the supervisor is gone, and the fork is killed. The server exits when all its
clients have, or when it has been idle for ``DDL_WARM_IDLE_S`` seconds, but never before its last fork. If it is killed,
its forks are too.
"""

import contextlib
import ctypes
import gc
import glob
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Mapping

from ddl.job.timeouts import idle_s
from ddl.records.log import keep_writing
from ddl.start import worker
from ddl.start.fast_exit import adopt_orphans, end_orphans, fork, libc, reset_signals, run_and_exit
from ddl.start.fork_client import ID_LENGTH, MARKS

ANSWER_S = 5.0
MOST_BYTES = 1 << 20  # of a request


def main() -> None:
    reset_signals()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        requests.set_inheritable(False)
        _import()
        if reason := unfit():
            sys.exit(f"no rank can be forked: {reason}")
        adopt_orphans()
        with contextlib.suppress(OSError):  # the client is gone
            requests.send(b"ready")
        request = ForkServer(requests).serve()
    if request:
        run_rank(request)


def _import() -> None:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # starts no threads; `set_blas_threads` sets the real number
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # as `ddl.start.worker` does
    keep_writing()  # loggers that are set up now will write to the rank's log
    gc.disable()  # the import leaves little garbage, and takes a fifth less time
    importlib.import_module("horovod.tensorflow")  # imports Keras too
    gc.enable()
    gc.collect()
    gc.freeze()  # the collector of a fork does not touch, and so copy, these pages


class ForkServer:
    """Forks a rank for each request, and reports how it ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests: socket.socket | None = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ, self._receive)
        self._forks: dict[socket.socket, tuple[int, int]] = {}  # process id and pidfd, by the supervisor's socket
        self._idle_s = idle_s()

    def serve(self) -> dict | None:
        """Serve until there is nothing left to do and return None; in each fork, return the request."""
        process = os.getpid()
        while self._requests or self._forks:
            ready = self._selector.select(None if self._forks else self._idle_s)
            if not ready:
                return None
            for key, _ in ready:
                try:
                    if request := key.data():
                        return request
                except Exception:
                    traceback.print_exc()  # an error here must not kill other runs' ranks
                    if os.getpid() != process:
                        os._exit(1)
        return None

    def _receive(self) -> dict | None:
        """Read one request and fork; in the fork, return the request."""
        assert self._requests
        data, files, _, _ = socket.recv_fds(self._requests, MOST_BYTES, 1)
        if not data:  # all clients are gone
            self._selector.unregister(self._requests)
            self._requests = None
            return None
        supervisor = socket.socket(fileno=files[0])
        sys.stdout.flush()
        sys.stderr.flush()
        pid = fork()
        if pid == 0:
            self._close_all(supervisor)
            return json.loads(data)
        pidfd = os.pidfd_open(pid)
        self._forks[supervisor] = pid, pidfd
        self._selector.register(supervisor, selectors.EVENT_READ, lambda: self._kill(supervisor))
        self._selector.register(pidfd, selectors.EVENT_READ, lambda: self._report(supervisor))
        with contextlib.suppress(OSError):  # a supervisor that is gone is noticed next
            socket.send_fds(supervisor, [json.dumps({"pid": pid}).encode()], [pidfd])
        return None

    def _close_all(self, supervisor: socket.socket) -> None:
        """Close, in a fork, the server's descriptors."""
        self._selector.close()
        for each in filter(None, (self._requests, supervisor, *self._forks)):
            each.close()
        for _, pidfd in self._forks.values():
            os.close(pidfd)

    def _kill(self, supervisor: socket.socket) -> None:
        """Kill the fork of a supervisor that is gone."""
        if supervisor in self._forks:  # otherwise it was reported in the same round
            self._selector.unregister(supervisor)
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._forks[supervisor][1], signal.SIGKILL)

    def _report(self, supervisor: socket.socket) -> None:
        """Collect a fork that has ended, and send its status to its supervisor."""
        pid, pidfd = self._forks.pop(supervisor)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(supervisor)
        supervisor.settimeout(ANSWER_S)
        if not self._forks:  # of several runs, nobody knows whose they are
            end_orphans()
        with supervisor, contextlib.suppress(OSError):
            supervisor.send(json.dumps({"status": status}).encode())


def unfit(process: str = "/proc/self") -> str:
    """Say why this process cannot be forked; empty if it can: threads and a GPU's driver don't survive a fork."""
    if (threads := len(os.listdir(f"{process}/task"))) != 1:
        return f"{threads} threads are running"
    for path in glob.glob(f"{process}/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(path).startswith(("/dev/nvidia", "/dev/kfd", "/dev/dri")):
                return f"a GPU's driver is in use ({os.readlink(path)})"
    return ""


# ---------------------------------------------------------------- in a fork


def run_rank(request: dict) -> None:
    """Set up this fork as the supervisor would have started the rank, and be that rank.

    The server has inherited user, limits and ignored signals from the launching process, as a cold rank would.
    """
    os.setsid()
    os.chdir(request["folder"])
    _mark(request["environment"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.orig_argv = request["words"]
    sys.argv = request["words"][2:]  # without python -m
    sys.modules["numpy.random"].seed()  # drawn while importing; `random` reseeds itself
    worker.main(forked=True)


def _mark(environment: Mapping[str, str]) -> None:
    """Write the run's id over the placeholders that /proc shows as this process's first environment.

    /proc/<pid>/environ shows the memory in which exec left the environment, even if it changes later, and a fork of
    this fork inherits it. So one search by environment (`ddl.follow.processes`) finds forked and cold ranks, with all
    that they leave behind.
    """
    libc.getenv.restype = ctypes.c_void_p
    for name in MARKS:
        value, place = environment[name].encode(), libc.getenv(name.encode())
        if place and len(value) == ID_LENGTH:
            ctypes.memmove(place, value, ID_LENGTH)


if __name__ == "__main__":
    run_and_exit(main)
