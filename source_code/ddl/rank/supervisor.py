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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from ddl.launcher.roles import roles_of
from ddl.launcher.settings import stall_s
from ddl.rank import cluster
from ddl.rank.rendezvous import Slot
from ddl.rank.start import ForkedRank, start
from ddl.rank.straggler import EVERY_S, Straggler, at_work
from ddl.records.folder import STACK_SIGNAL, RunFolder, StorageError, stack_of
from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir

STOPPING = (signal.SIGTERM, signal.SIGINT)
NOTICE_S = 20.0  # for ranks that write a checkpoint first; machines that are taken away give 30 s or more
LOOK_EVERY_S = 0.5  # at the clock
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

    Reasons are SIGINT, SIGTERM (where ranks have a checkpoint to write, after that), a launcher that is gone, the time
    limit, and ranks that never joined a cluster of tf.distribute. The first is kept in `reason`, with what the record
    says besides in `details`, and sets `stopping`. A subclass starts the processes.
    """

    grace_s = 1.0  # between asking the processes to end and killing them
    started = 0.0  # in seconds since the epoch: what a time limit counts from

    def __init__(self, watch_launcher: bool = True):
        self.run_id = os.environ["DDL_RUN_ID"]
        self.folder = RunFolder(Path(os.environ["DDL_RUN_DIR"]))
        self.noticed = False  # the ranks have been told to make room
        self.reason: str | None = None
        self.details: dict = {}
        self.stopping = threading.Event()
        self._children: list[ForkedRank | subprocess.Popen] = []
        self._lock, self._ending, self._start = threading.Lock(), False, 1
        self._watch_signals()
        lifeline = os.environ.pop("DDL_LIFELINE", "")  # not for the processes started from here
        if lifeline and watch_launcher:
            self.watch(self._await_launcher, _take_standard_input())

    def start_rank(self, words: Sequence[str], slot: Slot, **variables: str) -> "ForkedRank | subprocess.Popen":
        """Start a rank with this process' environment and these variables, and look after it.

        If the others have been asked to end already, so is this one.
        """
        environment = {**os.environ, **slot.horovod, "PYTHONUNBUFFERED": "1", "DDL_RANKS_OF": self.run_id, **variables}
        if not self.folder.job.exists():  # of a pasted line: what its ranks print goes to the terminal
            environment.pop("DDL_RUN_DIR")
        child = start(words, environment, self.stopping)
        with self._lock:
            self._children.append(child)
            late = self._ending
        if late:
            child.send_signal(signal.SIGTERM)
            self.watch(self._kill_after_grace, self._start)
        return child

    def watch(self, function: Callable, *arguments: object) -> None:
        """Call a function in a thread that ends with this process."""
        threading.Thread(target=function, args=arguments, daemon=True).start()

    # ---------------------------------------------------------------- what a subclass may say otherwise

    def terminate(self) -> None:
        """Ask the processes to end."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the processes that are left."""
        self._send(signal.SIGKILL)

    def diagnose(self, reason: str) -> dict:
        """Look at the ranks before they are ended; return what the record is to say of them."""
        return {}

    def has_exited(self, rank: int) -> bool:
        """Whether a rank's end is recorded."""
        raise NotImplementedError

    # ---------------------------------------------------------------- ending early

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
        self.watch(self._kill_after_grace, self._start)

    def forget_processes(self) -> None:
        """Begin anew, when all processes have ended."""
        with self._lock:
            self._children, self._ending, self._start = [], False, self._start + 1

    def _kill_after_grace(self, start: int) -> None:
        time.sleep(self.grace_s)
        if start == self._start:  # otherwise they have ended, and others run
            self.kill()

    def _send(self, number: int) -> None:
        with self._lock:
            children = list(self._children)
        for child in children:
            child.send_signal(number)

    # ---------------------------------------------------------------- reasons to end early, each awaited in a thread

    def _watch_signals(self) -> None:
        """End the processes on SIGTERM and SIGINT, whatever the main thread is doing."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in STOPPING:
            signal.signal(number, lambda number, frame: None)
        self.watch(self._await_signals, reader)

    def _await_signals(self, reader: int) -> None:
        while numbers := os.read(reader, 64):
            for number in numbers:
                if number == signal.SIGTERM and not self.noticed and self.give_notice():
                    self.noticed = True
                    self.watch(lambda: self.stopping.wait(NOTICE_S) or self.end("SIGTERM"))
                elif number in STOPPING:
                    self.end(signal.Signals(number).name)

    def give_notice(self) -> bool:
        """Tell ranks that listen for it (SIGURG) to write a checkpoint and end; return whether any does."""
        with self._lock:
            listening = [child for child in self._children if _handles(child.pid, signal.SIGURG)]
        for child in listening:
            child.send_signal(signal.SIGURG)
        return bool(listening)

    def _await_launcher(self, lifeline: int) -> None:
        os.read(lifeline, 1)  # returns when the other end is closed
        self.end("launcher gone")

    def await_time_limit(self, timeout_s: float) -> None:
        """End the processes `timeout_s` after `started`, which may be set later while this waits."""
        while (left := self.started + timeout_s - time.time()) > 0:
            if self.stopping.wait(min(left, LOOK_EVERY_S)):
                return
        self.end("timeout", timeout_s=timeout_s, **self.diagnose("timeout"))

    def await_cluster(self, over: threading.Event) -> None:
        """End the processes when ranks of a cluster of tf.distribute do not join it, unless they are over."""
        roles = roles_of(read_json(self.folder.job) or {})
        missing = roles and cluster.first_absent(len(roles))
        if missing and not over.is_set():
            gone = [rank for rank in missing if self.has_exited(rank)]
            self.end("absent", missing=missing, gone=gone, **self.diagnose("absent"))

    # ---------------------------------------------------------------- who waits for others

    def await_stalls(self, ranks: Sequence[int], over: threading.Event) -> None:
        """Record which of these ranks wait for others when seconds (``DDL_STALL_S``) have brought nothing new.

        It ends when the ranks are over. Until a script has written anything it may be importing, for long on a busy
        machine: it has ten times as many seconds.
        """
        limit_s, seen, due, before = stall_s(), 0.0, math.inf, None
        while not (over.wait(limit_s / 6) or self.stopping.is_set()):
            if (change := self.folder.last_change()) != seen:
                patience = limit_s * (1 if self.folder.has_output(ranks) else 10)
                seen, due, before = change, time.monotonic() + patience, None
                for rank in ranks:
                    self.folder.stalled(rank).unlink(missing_ok=True)
            elif time.monotonic() >= due:
                answers = [self.waits(ranks), [stack_of(self.folder.stack(rank)) for rank in ranks]]
                if answers == before:  # twice at the same point, so that it is no moment of a long computation
                    for rank, waiting in zip(ranks, answers[0]):
                        record = {"rank": rank, "waits": waiting, "quiet_s": limit_s, **self._stopped(rank)}
                        self.write(self.folder.write_json, self.folder.stalled(rank), record)
                    due = math.inf  # until something new comes
                elif before:
                    due, before = time.monotonic() + limit_s, None
                else:
                    before = answers

    def _stopped(self, rank: int) -> dict:
        """The process id of a rank that a signal has stopped, as what is to be recorded."""
        pid = (read_json(self.folder.rank(rank)) or {}).get("pid", 0)
        return {"stopped": pid} if is_stopped(pid) else {}

    def await_straggler(self, ranks: Sequence[int], over: threading.Event) -> None:
        """Record which of these ranks the others wait for while the run goes on; it ends when the ranks are over."""
        straggler, known = Straggler(), None
        while not (over.wait(EVERY_S) or self.stopping.is_set()):
            pids = [(read_json(self.folder.rank(rank)) or {}).get("pid") for rank in ranks]
            if not all(pids):
                continue
            if (found := straggler.add([at_work(pid) for pid in pids])) != known:
                self.folder.straggler.unlink(missing_ok=True)
                if found is not None:
                    self.write(self.folder.write_json, self.folder.straggler, {"rank": ranks[found]})
                known = found

    def waits(self, ranks: Sequence[int]) -> list[bool]:
        """Ask these ranks at once whether they wait for others."""

        def rank_waits(rank: int) -> bool:
            record = read_json(self.folder.rank(rank))
            return bool(record) and waits(record["pid"], self.folder.stack(rank))

        with ThreadPoolExecutor(len(ranks)) as pool:
            return list(pool.map(rank_waits, ranks))

    # ---------------------------------------------------------------- records

    def record(self, event: str, **fields: object) -> None:
        """Append an event to ``launcher.jsonl``."""
        self.write(self.folder.append, self.folder.launcher, {"event": event, "time": time.time(), **fields})

    def write(self, write: Callable[[Path, dict], None], path: Path, record: dict) -> None:
        try:
            write(path, record)
        except StorageError as error:  # the ranks go on; who follows them sees how this ends
            print(f"{error}: {json.dumps(record)}", file=sys.stderr, flush=True)


def _take_standard_input() -> int:
    """Move standard input to a new descriptor, so that no process started from here reads it.

    It is the read end of a pipe whose write end the launcher holds; Slurm, Docker and Singularity pass it on.
    """
    lifeline = os.dup(0)
    with open(os.devnull) as null:
        os.dup2(null.fileno(), 0)
    return lifeline


def shell_status(code: int) -> int:
    """The exit status that a shell shows: 128 and the signal's number for a killed process."""
    return 128 - code if code < 0 else code


def waits(pid: int, stack: Path) -> bool:
    """Whether a rank waits for others, which takes half a second to find out.

    One that waits in a collective operation, or in ``hvd.init()``, is inside Horovod, TensorFlow or PyTorch and uses
    hardly any processor time. ``ddl.rank`` answers a signal with its stack, in the file `stack`.
    """
    try:
        process = psutil.Process(pid)
        if not _handles(pid, STACK_SIGNAL) or is_stopped(pid):
            return False  # another program by now, which the signal would end; or it can't answer
        process.send_signal(STACK_SIGNAL)
        before = process.cpu_times()
        time.sleep(STACK_S)
        after = process.cpu_times()
    except psutil.NoSuchProcess:
        return False
    idle = after.user + after.system - before.user - before.system < STACK_S / 2
    return idle and bool(LIBRARY.search(stack_of(stack).split("\n")[0]))


def is_stopped(pid: int) -> bool:
    """Whether a signal (SIGSTOP) has stopped a process."""
    with suppress(psutil.Error):
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    return False


def _handles(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return False
    return bool(caught) and bool(int(caught[1], 16) >> (number - 1) & 1)
