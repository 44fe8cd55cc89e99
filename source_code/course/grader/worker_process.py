"""Connection to the grader's worker and judge processes.

Such a process cannot make this one wait longer, or read more, than the caller allows. A process that violates the
protocol is ended with all its children, and not used again.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import psutil

CHUNK_BYTES = 64 * 2**10
ENDS_WITHIN_S = 0.5  # by itself
GONE_WITHIN_S = 10.0  # seconds after a kill, which is slow with a thousand processes


class Ended(Exception):
    """Process ended, or sent an invalid message."""


class Late(Exception):
    """Process did not answer in time."""


class Channel:
    """A process that answers requests over its standard input and output: dictionaries, each a line of JSON.

    While it works on a request it may ask questions itself, ``{"ask": question}``; its end of the connection is
    `course.grader.worker_pipe`. Once it has `ended`, `last_words` is the last line that it wrote to standard error.
    """

    def __init__(self, command, **options):
        """Start the command in a new session; `options` are those of `subprocess.Popen`."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            ends = {"stdin": theirs, "stdout": theirs, "stderr": subprocess.PIPE}
            self._process = subprocess.Popen(command, start_new_session=True, **ends, **options)
        os.set_blocking(self._process.stderr.fileno(), False)
        self._rest = b""
        self._asked = 0
        self.ended, self.last_words = False, ""
        self.due = 0.0  # deadline of the current request, by `time.monotonic`
        self.why = None  # it was ended, set by a watcher

    @property
    def pid(self):
        return self._process.pid

    def ask(self, request, timeout_s, limit_bytes, serve=None):
        """Return the answer to `request`; raise `Late` or `Ended` if it is late or too long.

        `serve` replies to the process's own questions; it may reset `due`. After any exception, the process is ended.
        """
        try:
            return self._answer(request, timeout_s, limit_bytes, serve)
        except BaseException:
            self.kill()
            raise

    def _answer(self, request, timeout_s, limit_bytes, serve):
        self._asked += 1
        self.due = time.monotonic() + timeout_s
        self._send(request | {"id": self._asked})
        answer = self._receive(limit_bytes)
        while serve and "ask" in answer:
            self._send(serve(answer["ask"]))
            answer = self._receive(limit_bytes)
        # The graded code may have written a line earlier, which is not an answer to this request.
        if answer.pop("id", None) != self._asked:
            raise Ended("its answer is to another question")
        return answer

    def _send(self, message):
        self._in_time(self._socket.sendall, json.dumps(message).encode() + b"\n")

    def _receive(self, limit_bytes):
        received = bytearray(self._rest)
        while (end := received.find(b"\n", max(0, len(received) - CHUNK_BYTES))) < 0 and len(received) <= limit_bytes:
            chunk = self._in_time(self._socket.recv, CHUNK_BYTES)
            if not chunk:
                raise Ended(self._reason())
            received += chunk
        if not 0 <= end <= limit_bytes:
            raise Ended(f"it answered with more than {limit_bytes:,} bytes")
        self._rest = received[end + 1 :]
        try:
            message = json.loads(received[:end])
        except (ValueError, RecursionError, MemoryError):
            message = None
        if not isinstance(message, dict):
            raise Ended("its answer is not a JSON object")
        return message

    def _in_time(self, act, argument):
        left = self.due - time.monotonic()
        if left <= 0:
            raise Late
        self._socket.settimeout(left)
        try:
            return act(argument)
        except TimeoutError:
            raise Late from None
        except OSError:
            raise Ended(self._reason()) from None

    def kill(self):
        """End the process and everything it started; return when they are gone."""
        if self.ended:
            return
        self.ended = True
        self.kill_all()
        self._process.wait()
        with contextlib.suppress(OSError):  # it wrote nothing
            errors = os.read(self._process.stderr.fileno(), CHUNK_BYTES).decode(errors="replace")
            self.last_words = "".join(errors.strip().splitlines()[-1:])
        self._process.stderr.close()
        self._socket.close()

    def kill_all(self):
        """End the process and everything it started, but keep the connection."""
        descendants = []
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(self.pid).children(recursive=True)
        for process in descendants:  # kill a sandbox's first process first; the others die with it
            with contextlib.suppress(psutil.Error):
                process.kill()
        if descendants:  # the sandbox then reaps them and exits
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS_WITHIN_S)
        self._process.kill()
        due = time.monotonic() + GONE_WITHIN_S
        while any(map(_alive, descendants)) and time.monotonic() < due:
            time.sleep(0.005)

    def _reason(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(1.0)
            number = -status if status < 0 else status - 128  # how a sandbox reports a signal
            with contextlib.suppress(ValueError):
                return self.why or f"it was ended by {signal.Signals(number).name}"
            return self.why or f"it ended with status {status}"
        return self.why or "it closed its connection"


def _alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def worker_command():
    # -I: neither the working directory nor PYTHON* variables change what is imported.
    return [sys.executable, "-I", "-m", "course.grader.worker"]


def start_worker(limits, folder=None):
    """Start a worker in `folder` without a sandbox, for attendees' own code on their own machines.

    Limits of memory, file size and time hold; it can read and write everything its user can.
    """
    env = os.environ | {"MPLBACKEND": "Agg", "DDL_VIEW": "plain", "OPENBLAS_NUM_THREADS": "1"}
    return Channel(worker_command(), cwd=folder, env=env)
