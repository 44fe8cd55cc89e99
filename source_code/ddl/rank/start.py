"""Start a rank: as a fork of a template that has imported TensorFlow and Horovod, or where none can serve, cold."""

import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ddl.launcher import warm
from ddl.launcher.commands import RankCommand
from ddl.rank.ending import end_with_parent

LOOK_EVERY_S = 0.1


class ForkedRank:
    """A rank that a template has forked, with what a supervisor uses of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, pid: int, descriptor: int) -> None:
        self.pid = pid
        self._connection, self._descriptor = connection, descriptor

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def wait(self) -> int:
        """Wait until the rank has ended; return its exit code, or the negative number of the signal that killed it."""
        with self._connection, suppress(OSError, ValueError):
            self._connection.settimeout(None)
            if answer := warm.receive(self._connection):
                return os.waitstatus_to_exitcode(answer[0]["status"])
        print(f"the template of rank process {self.pid} was killed, and the rank with it", file=sys.stderr, flush=True)
        return -signal.SIGKILL


def start(
    words: Sequence[str], environment: Mapping[str, str], stopping: threading.Event
) -> "ForkedRank | subprocess.Popen":
    """Start a rank's command in a session of its own; it is killed if the calling thread's process is."""
    return _fork(words, environment, stopping) or subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=end_with_parent
    )


def _fork(words, environment, stopping):
    """Ask a template for the rank; return None where it has to start cold."""
    rank = RankCommand.within(words)
    if rank.start == "cold" or not warm.allowed(environment) or shutil.which(words[0]) != sys.executable:
        return None
    with suppress(OSError, ValueError):
        if warm.set_by(Path(rank.script).read_text()):
            return None
        connection = warm.connect(warm.address(warm.identity(environment)))
        if connection is None:
            return None
        request = {
            "do": "fork",
            "environment": dict(environment),
            "words": list(words),
            "executable": sys.executable,
            **_inherited_state(),
        }
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            connection.settimeout(warm.READY_S)
            warm.send(connection, request, (0, 1, 2, folder))
        finally:
            os.close(folder)
        answer = _answer(connection, stopping)
        if answer and "pid" in answer[0]:
            return ForkedRank(connection, answer[0]["pid"], *answer[1])
        connection.close()
    return None


def _answer(connection, stopping):
    """Wait for a template, which may still import, for as long as the run is not to stop."""
    deadline = time.monotonic() + warm.READY_S
    while not stopping.is_set() and time.monotonic() < deadline:
        if select.select([connection], [], [], LOOK_EVERY_S)[0]:
            return warm.receive(connection, descriptors=1)
    return None


def _inherited_state() -> dict:
    """What a process that is started from here inherits, and a fork can take over."""
    status = Path("/proc/self/status").read_text()
    umask = next(line.split()[1] for line in status.splitlines() if line.startswith("Umask"))
    return {
        "umask": int(umask, 8),
        "limits": {name: resource.getrlimit(number)[0] for name, number in warm.LIMITS.items()},
        "cores": sorted(os.sched_getaffinity(0)),
        "ignored": [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }
