"""The grader's other processes, as seen by the one that mediates between them.

Nothing that such a process does makes this one wait longer, or read more, than the caller allows. A process that breaks
the protocol is ended with everything it started, and not asked again.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time

import psutil

CHUNK_BYTES = 64 * 2**10
ENDS_WITHIN_S = 0.5  # by itself
GONE_WITHIN_S = 10.0  # when killed; a thousand processes take a while


class Ended(Exception):
    """The process has ended, or what it sent is not a message; the text says what happened."""


class Late(Exception):
    """The process did not answer in time."""


class Channel:
    """A process that exchanges lines of JSON, started by `start`."""

    def __init__(self, process: subprocess.Popen):
        self._process = process
        self._rest = bytearray()
        self.why = None  # it was ended, set by a watcher
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self):
        return self._process.pid

    def send(self, message, timeout_s):
        """Send a dictionary; raise `Late` if it is not read in time, `Ended` if it can't be."""
        data = memoryview(json.dumps(message).encode() + b"\n")
        pipe, due = self._process.stdin, time.monotonic() + timeout_s
        while data:
            self._wait(pipe, selectors.EVENT_WRITE, due)
            try:
                data = data[os.write(pipe.fileno(), data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Ended(self._reason()) from None

    def receive(self, timeout_s, limit_bytes):
        """Return the next message, a dictionary of at most `limit_bytes` as text; raise `Late` or `Ended`."""
        pipe, due = self._process.stdout, time.monotonic() + timeout_s
        searched = 0
        while (end := self._rest.find(b"\n", searched)) < 0 and len(self._rest) <= limit_bytes:
            searched = len(self._rest)
            self._wait(pipe, selectors.EVENT_READ, due)
            try:
                chunk = os.read(pipe.fileno(), CHUNK_BYTES)
            except BlockingIOError:
                continue
            if not chunk:
                raise Ended(self._reason())
            self._rest += chunk
        if not 0 <= end <= limit_bytes:
            raise Ended(f"it answered with more than {limit_bytes:,} bytes")
        line = bytes(self._rest[:end])
        del self._rest[: end + 1]
        try:
            message = json.loads(line)
        except (ValueError, RecursionError, MemoryError):
            message = None
        if not isinstance(message, dict):
            raise Ended("its answer is not a JSON object")
        return message

    def errors(self):
        """Return the standard error of a process that failed to start."""
        with contextlib.suppress(OSError):
            return os.read(self._process.stderr.fileno(), CHUNK_BYTES).decode(errors="replace")
        return ""

    def kill(self):
        """End the process and everything it started; return when they are gone."""
        self.kill_all()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def kill_all(self):
        """End the process and everything it started, but keep the connection."""
        descendants = []
        with contextlib.suppress(psutil.Error):
            descendants = psutil.Process(self.pid).children(recursive=True)
        for process in descendants:  # a sandbox's first process comes first, and the rest die with it
            with contextlib.suppress(psutil.Error):
                process.kill()
        if descendants:  # the sandbox then collects them and ends by itself
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

    def _wait(self, pipe, event, due):
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not selector.select(max(0.0, due - time.monotonic())):
                raise Late


def _alive(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class WorkerProcess(Channel):
    """A process that runs `course.grader.worker`: ask it what a submission's code does."""

    def __init__(self, process):
        super().__init__(process)
        self._asked = 0

    def ask(self, request, timeout_s, limit_bytes, serve=None):
        """Return the worker's answer to `request`; raises as `send` and `receive` do.

        `serve` replies to the messages about ranks that come before the answer.
        """
        self._asked += 1
        due = time.monotonic() + timeout_s
        self.send(request | {"id": self._asked}, timeout_s)
        answer = self.receive(max(0.0, due - time.monotonic()), limit_bytes)
        while serve and "rank" in answer:
            self.send(serve(answer), max(0.0, due - time.monotonic()))
            answer = self.receive(max(0.0, due - time.monotonic()), limit_bytes)
        # The code being graded may have written a line beforehand: that is no answer to this request.
        if answer.pop("id", None) != self._asked:
            raise Ended("its answer is to another question")
        return answer


def worker_command():
    # -I: neither the working directory nor PYTHON* variables change what is imported.
    return [sys.executable, "-I", "-m", "course.grader.worker"]


def start_worker(limits, folder=None):
    """Start a worker in `folder` without a sandbox, for attendees' own code on their own machines.

    Limits of memory, file size and time hold; it can read and write everything its user can.
    """
    env = os.environ | {"MPLBACKEND": "Agg", "DDL_VIEW": "plain", "OPENBLAS_NUM_THREADS": "1"}
    return WorkerProcess(start(worker_command(), cwd=folder, env=env))


def start(command, **options):
    """Start a process in a new session, with pipes for standard input, output and error."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **options,
    )
