"""The other processes of an examination, as seen by the one that mediates between them.

Nothing that such a process does can make this one wait for longer, or read more, than it is told to. A process that
breaks the conversation is ended with all that it started, and not asked again.
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

__all__ = ["Channel", "Ended", "Late", "WorkerProcess", "start_worker", "worker_command"]

CHUNK_BYTES = 64 * 2**10
ENDS_WITHIN_S = 0.5  # by itself
GONE_WITHIN_S = 10.0  # killed processes; a thousand of them take a while


class Ended(Exception):
    """The process has ended, or what it says is not a message: the text says what happened."""


class Late(Exception):
    """The process did not answer in time."""


class Channel:
    """A process that is spoken with in lines of JSON.

    Parameters
    ----------
    process
        Started with pipes for standard input, output and error, in a session of its own.
    """

    def __init__(self, process: subprocess.Popen):
        self._process = process
        self._rest = bytearray()
        self.why = None  # it was ended, if somebody watches it
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)

    @property
    def pid(self):
        return self._process.pid

    def send(self, message, timeout_s):
        """Send a dictionary; raise `Late` when it is not taken in time, `Ended` when it can't."""
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
        """Return the next message, a dictionary of at most `limit_bytes` as text.

        Raises
        ------
        Late
            When it is not complete in time.
        Ended
            When the process ends before, or sends more, or what is not a dictionary.
        """
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
            raise Ended("it answered with what is no answer")
        return message

    def said(self):
        """Return what is on the standard error of a process that has not got to work."""
        with contextlib.suppress(OSError):
            return os.read(self._process.stderr.fileno(), CHUNK_BYTES).decode(errors="replace")
        return ""

    def kill(self):
        """End the process and all that it started; return when they are gone."""
        self.kill_all()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                pipe.close()

    def kill_all(self):
        """End the process and all that it started, and keep the connection."""
        everyone = []
        with contextlib.suppress(psutil.Error):
            everyone = psutil.Process(self.pid).children(recursive=True)
        for process in everyone:  # a sandbox's first process, and with it the rest, comes first
            with contextlib.suppress(psutil.Error):
                process.kill()
        if everyone:  # a sandbox's last one then takes leave of them, and ends by itself
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(ENDS_WITHIN_S)
        self._process.kill()
        due = time.monotonic() + GONE_WITHIN_S
        while any(map(_alive, everyone)) and time.monotonic() < due:
            time.sleep(0.005)

    def _reason(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(1.0)
            number = -status if status < 0 else status - 128  # as a sandbox passes a signal on
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
    """A process that runs `ddl.grader.worker`: ask it what a submission's code does."""

    def __init__(self, process):
        super().__init__(process)
        self._asked = 0

    def ask(self, request, timeout_s, limit_bytes):
        """Return the worker's answer to `request`; raises as `send` and `receive` do."""
        self._asked += 1
        due = time.monotonic() + timeout_s
        self.send(request | {"id": self._asked}, timeout_s)
        answer = self.receive(max(0.0, due - time.monotonic()), limit_bytes)
        # What was written beforehand, by the code that is being examined, is no answer to this.
        if answer.pop("id", None) != self._asked:
            raise Ended("it answered what it was not asked")
        return answer


def worker_command():
    """Return the command that a worker is, for whoever starts it."""
    # -I: neither the folder it is started in nor PYTHON* variables change what is imported.
    return [sys.executable, "-I", "-m", "ddl.grader.worker"]


def start_worker(limits, folder=None):
    """Start a plain worker, for the attendee's own code on the attendee's own machine.

    Limits of memory, file size and time hold in it; it can read and write all that its user can.

    Parameters
    ----------
    limits : Limits
    folder : pathlib.Path, optional
        Where it starts, as a notebook does in its own folder.
    """
    env = os.environ | {"MPLBACKEND": "Agg", "DDL_VIEW": "plain", "OPENBLAS_NUM_THREADS": "1"}
    return WorkerProcess(start(worker_command(), cwd=folder, env=env))


def start(command, **options):
    """Start a process to speak with; its standard input, output and error are pipes."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **options,
    )
