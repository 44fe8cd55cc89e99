"""Start one rank: as a fork of the fork server if the run has one, else as a new process."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ddl.start.fast_exit import end_with_parent
from ddl.start.fork_client import VARIABLE

READY_S = 60.0  # for a fork server that is still importing
POLL_S = 0.1


class ForkedRank:
    """A forked rank, with the methods of `subprocess.Popen` that supervisors use."""

    def __init__(self, answers: socket.socket, pid: int, pidfd: int) -> None:
        self.pid = pid
        self._answers, self._pidfd = answers, pidfd

    def send_signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def wait(self) -> int:
        """Wait until the rank has ended; return its exit code, or minus the number of the signal that killed it."""
        with self._answers, suppress(OSError, ValueError):
            self._answers.settimeout(None)
            if answer := self._answers.recv(1 << 10):
                return os.waitstatus_to_exitcode(json.loads(answer)["status"])
        return -signal.SIGKILL  # the server was killed, and the rank with it


class Spawner:
    """Starts the ranks of one run. Each gets its own session, and is killed if its supervisor is."""

    def __init__(self) -> None:
        number = os.environ.pop(VARIABLE, "")
        self._server = socket.socket(fileno=int(number)) if number else None
        if self._server:
            self._server.set_inheritable(False)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], stopping: threading.Event, folder: str | None = None
    ) -> ForkedRank | subprocess.Popen:
        """Start a rank's command line, which begins with ``python -m``, with this environment and in this folder."""
        options = {"env": environment, "cwd": folder, "stdin": subprocess.DEVNULL, "start_new_session": True}
        forked = self._fork(words, environment, stopping)
        return forked or subprocess.Popen(words, preexec_fn=end_with_parent, **options)

    def _fork(self, words, environment, stopping):
        """Ask the fork server for the rank; return None if it has to start cold."""
        if not self._server or words[0] != sys.executable:
            return None
        request = {"environment": dict(environment), "words": list(words), "folder": os.getcwd()}
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, suppress(OSError):  # the server is gone
            socket.send_fds(self._server, [json.dumps(request).encode()], [theirs.fileno()])
        deadline = time.monotonic() + READY_S
        while not stopping.is_set() and time.monotonic() < deadline:
            if select.select([answers], [], [], POLL_S)[0]:
                data, files, _, _ = socket.recv_fds(answers, 1 << 10, 1)
                if data:
                    return ForkedRank(answers, json.loads(data)["pid"], files[0])
                break
        answers.close()
        return None
