"""Looks after the processes of a run: the base of `ddl.rank.one_host`, `ddl.rank.task` and `ddl.rank.hosts`."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from ddl.launcher.roles import roles_of
from ddl.launcher.settings import stall_s
from ddl.rank import cluster
from ddl.rank.start import ForkedRank
from ddl.records.folder import STACK_SIGNAL, RunFolder, StorageError, stack_of
from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir

STOPPING = (signal.SIGTERM, signal.SIGINT)
STACK_S = 0.5
LIBRARY = re.compile(r"/(horovod|tensorflow|keras|torch)/|horovod_")


def enter_folder(name: str) -> None:
    """Give the tasks of a line that was pasted into a terminal a folder where they meet. Its ranks keep no records."""
    if RunFolder.here() is None:
        folder = runs_dir() / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(f"{StorageError(error, folder)}")
        os.environ.update(DDL_RUN_ID=name, DDL_RUN_DIR=str(folder))


class Supervisor:
    """Ends the processes of a run early when there is a reason to; one in a process.

    Reasons are SIGTERM and SIGINT, a launcher that is gone, the time limit, and ranks that never
    joined a cluster of tf.distribute. A subclass starts the processes, and calls `follow` with each.

    Attributes
    ----------
    reason : str or None
        Why the processes were ended early; `details` has what the record says besides.
    stopping : threading.Event
        Set once there is a reason.
    """

    grace_s = 1.0  # between asking the processes to end and killing them

    def __init__(self, watch_launcher: bool = True):
        self.run_id = os.environ["DDL_RUN_ID"]
        self.folder = RunFolder(Path(os.environ["DDL_RUN_DIR"]))
        self.reason: str | None = None
        self.details: dict = {}
        self.stopping = threading.Event()
        self._children: list[ForkedRank | subprocess.Popen] = []
        self._lock, self._ending = threading.Lock(), False
        self._watch_signals()
        lifeline = os.environ.pop("DDL_LIFELINE", "")  # not for the processes started from here
        if lifeline and watch_launcher:
            self.watch(self._await_launcher, _take_standard_input())

    def follow(self, child: "ForkedRank | subprocess.Popen") -> None:
        """Look after a process; if the others have been asked to end already, so is this one."""
        with self._lock:
            self._children.append(child)
            late = self._ending
        if late:
            child.send_signal(signal.SIGTERM)
            self.watch(self._kill_after_grace)

    # ---------------------------------------------------------------- what a subclass may say otherwise

    def terminate(self) -> None:
        """Ask the processes to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the processes that are left."""
        self._send(signal.SIGKILL)

    def launcher_gone(self) -> None:
        self.end("launcher gone")

    def diagnose(self, reason: str) -> dict:
        """Look at the ranks before they are ended; return what the record is to say of them."""
        return {}

    def has_exited(self, rank: int) -> bool:
        return self.folder.exit(rank).exists()

    # ---------------------------------------------------------------- reasons to end early

    def end(self, reason: str, **details: object) -> None:
        """End the processes; of several reasons the first one is kept."""
        if self.reason is None:
            self.reason, self.details = reason, details
        self.stopping.set()
        self.end_processes()

    def end_processes(self) -> None:
        """Ask the processes to end, and kill those that are left after `grace_s`."""
        with self._lock:
            self._ending = True
        self.terminate()
        self.watch(self._kill_after_grace)

    def limit(self, timeout_s: float, started: float) -> None:
        """End the processes `timeout_s` after `started` (seconds since the epoch)."""
        self.watch(self._await_time_limit, timeout_s, started)

    def watch_cluster(self) -> None:
        """End the processes when ranks of a cluster of tf.distribute do not join it."""
        if roles := roles_of(read_json(self.folder.job) or {}):
            self.watch(self._await_cluster, roles)

    def watch_progress(self, ranks: Iterable[int]) -> None:
        """Record which of these ranks wait for others when a minute (``DDL_STALL_S``) has brought nothing new."""
        self.watch(self._await_stalls, list(ranks), stall_s())

    def _await_stalls(self, ranks: list[int], limit_s: float) -> None:
        seen, due, before = 0.0, math.inf, None
        while not self.stopping.wait(limit_s / 6):
            if (change := self.folder.last_change()) != seen:
                seen, patience_s, before = change, limit_s, None
                due = time.monotonic() + limit_s
                for rank in ranks:
                    self.folder.stalled(rank).unlink(missing_ok=True)
            elif time.monotonic() >= due:
                answers = [self.waits(ranks), [stack_of(self.folder.stack(rank)) for rank in ranks]]
                if answers == before:  # twice at the same point, so that it is no moment of a long computation
                    for rank, waiting in zip(ranks, answers[0]):
                        record = {"rank": rank, "waits": waiting, "quiet_s": limit_s}
                        self._write(self.folder.write_json, self.folder.stalled(rank), record)
                    due = math.inf  # until something new comes
                elif before:  # a long computation: it is asked less and less often
                    due, patience_s, before = time.monotonic() + patience_s, 2 * patience_s, None
                else:
                    before = answers

    def waits(self, ranks: list[int]) -> list[bool]:
        """Ask these ranks at once whether they wait for others."""

        def rank_waits(rank: int) -> bool:
            record = read_json(self.folder.rank(rank))
            return bool(record) and waits(record["pid"], self.folder.stack(rank))

        with ThreadPoolExecutor(len(ranks)) as pool:
            return list(pool.map(rank_waits, ranks))

    def _watch_signals(self) -> None:
        """End the processes on SIGTERM and SIGINT, whatever handlers Horovod's launcher may set later."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in STOPPING:
            signal.signal(number, lambda number, frame: None)
        self.watch(self._await_signals, reader)

    def _await_signals(self, reader: int) -> None:
        while numbers := os.read(reader, 64):
            for number in numbers:
                if number in STOPPING:
                    self.end(signal.Signals(number).name)

    def _await_launcher(self, lifeline: int) -> None:
        os.read(lifeline, 1)  # returns when the other end is closed
        self.launcher_gone()

    def _await_time_limit(self, timeout_s: float, started: float) -> None:
        if not self.stopping.wait(max(0.0, started + timeout_s - time.time())):
            self.end("timeout", timeout_s=timeout_s, **self.diagnose("timeout"))

    def _await_cluster(self, roles: tuple) -> None:
        if missing := cluster.first_absent(self.folder, roles):
            gone = [rank for rank in missing if self.has_exited(rank)]
            self.end("absent", missing=missing, gone=gone, **self.diagnose("absent"))

    def _send(self, number: int) -> None:
        with self._lock:
            children = list(self._children)
        for child in children:
            child.send_signal(number)

    def _kill_after_grace(self) -> None:
        time.sleep(self.grace_s)
        self.kill()

    def watch(self, function: Callable, *arguments: object) -> None:
        """Call a function in a thread that ends with this process."""
        threading.Thread(target=function, args=arguments, daemon=True).start()

    # ---------------------------------------------------------------- records

    def record(self, event: str, **fields: object) -> None:
        """Append an event to ``launcher.jsonl``."""
        self._write(self.folder.append, self.folder.launcher, {"event": event, "time": time.time(), **fields})

    def record_exit(self, rank: int, code: int, **fields: object) -> None:
        """Write ``exit-<rank>.json``."""
        record = {"rank": rank, "code": shell_status(code), "time": time.time(), **fields}
        self._write(self.folder.write_json, self.folder.exit(rank), record)

    def _write(self, write: Callable[[Path, dict], None], path: Path, record: dict) -> None:
        try:
            write(path, record)
        except StorageError as error:  # the ranks go on; who follows them sees how this ends
            print(f"{error}: {json.dumps(record)}", file=sys.stderr, flush=True)


def _take_standard_input() -> int:
    """Move standard input to a new descriptor, so that no process started from here reads it.

    It is the read end of a pipe whose write end the launcher holds: Slurm, Docker and Singularity
    all pass standard input on.
    """
    lifeline = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return lifeline


def shell_status(code: int) -> int:
    """The exit status that a shell shows: 128 and the signal's number for a killed process."""
    return 128 - code if code < 0 else code


def waits(pid: int, stack: Path) -> bool:
    """Whether a rank waits for others; it takes half a second to find out.

    Horovod only says so in a log. A rank that waits in a collective operation, or in ``hvd.init()``,
    is inside Horovod, TensorFlow or PyTorch and uses hardly any processor time. ``ddl.rank`` answers a signal
    with its stack, in the file `stack`.
    """
    try:
        process = psutil.Process(pid)
        if not _handles(pid, STACK_SIGNAL):
            return False  # another program by now, which the signal would end
        process.send_signal(STACK_SIGNAL)
        before = _cpu_seconds(process)
        time.sleep(STACK_S)
        idle = _cpu_seconds(process) - before < STACK_S / 2
    except psutil.NoSuchProcess:
        return False
    return idle and bool(LIBRARY.search(stack_of(stack).split("\n")[0]))


def _handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return False
    return bool(caught) and bool(int(caught[1], 16) >> (number - 1) & 1)


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system
