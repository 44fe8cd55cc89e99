"""Supervise the ranks of a run: start them, watch them, and end them when there is a reason to.

`Supervisor` is the base of one small class for each place: `ddl.start.one_host`, `ddl.start.netns_hosts`,
`ddl.start.elastic` and `ddl.start.task`.
"""

import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddl.follow.processes import handles_signal
from ddl.job.run_options import OURS, SAFE_PATH, RunOptions
from ddl.job.timeouts import TERM_GRACE_S, stall_s
from ddl.records.folder import RunFolder, stack_of
from ddl.records.jsonfiles import read_json
from ddl.records.paths import runs_dir
from ddl.start.fast_exit import PACKAGES, adopt_orphans, reset_signals
from ddl.start.rendezvous import Slot
from ddl.start.spawn import ForkedRank, Spawner
from ddl.start.waiting import SAMPLE_S, Straggler, at_work, waits

STOPPING = (signal.SIGTERM, signal.SIGINT)
PREEMPTION_S = 20.0  # for ranks to write a checkpoint; clouds give at least 30 s before they take a machine away
POLL_S = 0.5


def enter_folder(name: str) -> None:
    """Give the processes of a pasted line a folder in which they find each other. Its ranks keep no records."""
    if RunFolder.here() is None:
        folder = runs_dir() / name
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.update(DDL_RUN_ID=name, DDL_RUN_DIR=str(folder))


def import_libraries_only() -> None:
    """Take the working folder, which ``python -m`` puts first, off the path: it may hold a file called horovod.py."""
    if sys.path[0] == os.getcwd():
        del sys.path[0]


class Supervisor:
    """Starts processes, and ends them early when there is a reason to. There is one supervisor per process.

    Reasons are SIGINT; SIGTERM, after ranks have written a checkpoint if they can; the death of the launcher; and the
    time limit. The first reason is kept in `reason`, with more about it in `details`, and sets `stopping`. Each reason
    is awaited in its own thread, because the main thread waits for ranks.
    """

    grace_s = 1.0  # between SIGTERM and SIGKILL, for processes that don't handle SIGTERM

    def __init__(self, options: RunOptions, watch_launcher: bool = True):
        self.options = options
        self.began = time.monotonic()  # the time limit counts from here; a subclass may move it
        self.run_id = os.environ["DDL_RUN_ID"]
        self.folder = RunFolder(Path(os.environ["DDL_RUN_DIR"]))
        self.preempted = False  # ranks were told to write a checkpoint and end
        self.asked = ""  # the signal that asked the ranks to end
        self.reason: str | None = None
        self.details: dict = {}
        self.stopping = threading.Event()
        self._children: list[ForkedRank | subprocess.Popen] = []
        self._lock, self._ending, self._start = threading.Lock(), False, 1
        self._spawner = Spawner()
        self._earlier_bytes = 0  # of the ranks' output before the last restart
        reset_signals()
        adopt_orphans()
        self._watch_signals()
        launcher_pipe = os.environ.pop("DDL_LAUNCHER_PIPE", "")  # not for processes started from here
        if launcher_pipe and watch_launcher:
            self.watch(self._await_launcher, _take_standard_input())

    def start_rank(self, slot: Slot, prefix: Sequence[str] = (), **variables: str) -> ForkedRank | subprocess.Popen:
        """Start a rank with these variables, behind a command's `prefix`, and supervise it.

        If the others have been asked to end already, this one is asked too.
        """
        environment = {**os.environ, **slot.horovod, "PYTHONUNBUFFERED": "1", "DDL_RANKS_OF": self.run_id, **variables}
        if not self.options.folder:  # ranks of a pasted line print to the terminal
            environment.pop("DDL_RUN_DIR")
        if environment.get(SAFE_PATH) == OURS:
            del environment[SAFE_PATH]
        folder = PACKAGES if self.options.folder else None
        child = self._spawner.start((*prefix, *self.options.rank_command), environment, self.stopping, folder)
        with self._lock:
            self._children.append(child)
            late = self._ending
        if late:
            child.send_signal(signal.SIGTERM)
            self.watch(self._kill_after, self.grace_s, self._start)
        return child

    def watch(self, function: Callable, *arguments: object) -> None:
        """Call a function in a thread that ends with this process."""
        threading.Thread(target=function, args=arguments, daemon=True).start()

    # ---------------------------------------------------------------- what a subclass may override

    def terminate(self) -> None:
        """Ask the processes to end."""
        self.asked = self.asked or "SIGTERM"
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the processes that are left."""
        self.asked = "SIGKILL"
        self._send(signal.SIGKILL)

    def diagnose(self) -> dict:
        """Look at the ranks before they are ended at the time limit; return details for the record."""
        return {}

    # ---------------------------------------------------------------- ending early

    def end(self, reason: str, **details: object) -> None:
        """End the processes; if there are several reasons, the first is kept."""
        if self.reason is None:
            self.reason, self.details = reason, details
        self.stopping.set()
        self.end_processes()

    def end_processes(self) -> None:
        """Ask the processes to end, and kill those that are left after `grace_s`.

        If one handles SIGTERM, which may write what would be lost, they have `TERM_GRACE_S`.
        """
        with self._lock:
            first, self._ending = not self._ending, True
            handled = any(handles_signal(child.pid, signal.SIGTERM) for child in self._children)
        self.terminate()
        if first:
            self.watch(self._kill_after, TERM_GRACE_S if handled else self.grace_s, self._start)

    def forget_processes(self) -> None:
        """Prepare for a restart, when all processes have ended."""
        with self._lock:
            self._children, self._ending, self._start = [], False, self._start + 1
        self.asked = ""
        self._earlier_bytes = self.folder.output_bytes(range(self.options.ranks))

    def _kill_after(self, grace_s: float, start: int) -> None:
        time.sleep(grace_s)
        if start == self._start:  # otherwise these are other processes, after a restart
            if grace_s == TERM_GRACE_S:
                self.note(f"ranks that handle SIGTERM were killed, as they had not ended after {grace_s:g} s")
            self.kill()

    def _send(self, number: int) -> None:
        with self._lock:
            children = list(self._children)
        for child in children:
            child.send_signal(number)

    # ---------------------------------------------------------------- reasons to end early

    def _watch_signals(self) -> None:
        """Handle SIGTERM and SIGINT in a thread: Python's handlers run only when the main thread is not in C code."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)
        for number in STOPPING:
            signal.signal(number, lambda number, frame: None)
        self.watch(self._await_signals, reader)

    def _await_signals(self, reader: int) -> None:
        while numbers := os.read(reader, 64):
            for number in numbers:
                if number == signal.SIGTERM and not self.preempted and self.announce_preemption():
                    self.preempted = True
                    self.watch(lambda: self.stopping.wait(PREEMPTION_S) or self.end("SIGTERM"))
                elif number in STOPPING:
                    self.end(signal.Signals(number).name)

    def announce_preemption(self) -> bool:
        """Tell ranks that handle SIGURG to write a checkpoint and end; return whether any does."""
        with self._lock:
            listening = [child for child in self._children if handles_signal(child.pid, signal.SIGURG)]
        for child in listening:
            child.send_signal(signal.SIGURG)
        return bool(listening)

    def _await_launcher(self, launcher_pipe: int) -> None:
        os.read(launcher_pipe, 1)  # returns when the other end is closed
        self.end("launcher gone")

    def await_time_limit(self) -> None:
        """End the processes when the time limit has passed since `began`, which may still change."""
        timeout_s = self.options.timeout_s or math.inf
        while (left := self.began + timeout_s - time.monotonic()) > 0:
            if self.stopping.wait(min(left, POLL_S)):
                return
        self.end("timeout", timeout_s=timeout_s, **self.diagnose())

    # ---------------------------------------------------------------- ranks that wait

    def await_stalls(self, ranks: Sequence[int], over: threading.Event) -> None:
        """Record which of these ranks wait for others whenever the run has been silent for ``DDL_STALL_S`` seconds.

        Ends when the ranks are over. A script that has not written anything may still be importing, which takes long on
        a busy machine, so it gets ten times as long.
        """
        limit_s, seen, due, before = stall_s(), 0.0, math.inf, None
        while not (over.wait(limit_s / 6) or self.stopping.is_set()):
            if (change := self.folder.last_change()) != seen:
                patience = limit_s * (1 if self._has_output() else 10)
                seen, due, before = change, time.monotonic() + patience, None
                for rank in ranks:
                    self.folder.stalled(rank).unlink(missing_ok=True)
            elif time.monotonic() >= due:
                answers = [self.waits(ranks), [stack_of(self.folder.stack(rank)) for rank in ranks]]
                if answers == before:  # twice the same stack: the rank is stuck, not just slow
                    for rank, waiting in zip(ranks, answers[0], strict=True):
                        record = {"rank": rank, "waits": waiting, "since": seen}
                        self.folder.record(self.folder.stalled(rank), record)
                    due = math.inf  # until there is something new
                elif before:
                    due, before = time.monotonic() + limit_s, None
                else:
                    before = answers

    def await_straggler(self, ranks: Sequence[int], over: threading.Event) -> None:
        """Record which of these ranks the others wait for; end when the ranks are over."""
        straggler, known = Straggler(), None
        while not (over.wait(SAMPLE_S) or self.stopping.is_set()):
            pids = [self._pid(rank) for rank in ranks]
            if not all(pids) or not self._has_output():  # they may be importing, each at its own pace
                continue
            if (found := straggler.add([at_work(pid) for pid in pids if pid])) != known:
                self.folder.straggler.unlink(missing_ok=True)
                if found is not None:
                    self.folder.record(self.folder.straggler, {"rank": ranks[found]})
                known = found

    def _has_output(self) -> bool:
        """Return whether the script of a rank has printed or recorded anything since the last start."""
        return self.folder.output_bytes(range(self.options.ranks)) > self._earlier_bytes

    def waits(self, ranks: Sequence[int]) -> list[bool]:
        """Return for each of these ranks whether it waits for others."""
        with ThreadPoolExecutor(max(1, len(ranks))) as pool:
            return list(pool.map(lambda rank: waits(self._pid(rank), self.folder.stack(rank)), ranks))

    def _pid(self, rank: int) -> int:
        return (read_json(self.folder.rank(rank)) or {}).get("pid", 0)

    # ---------------------------------------------------------------- records

    def note(self, message: str) -> None:
        """Record a note that views show."""
        self.record("note", message=message)

    def record(self, event: str, **fields: object) -> None:
        """Append an event to ``launcher.jsonl``."""
        self.folder.record(self.folder.launcher, {"event": event, "time": time.time(), **fields})


def _take_standard_input() -> int:
    """Move standard input to a new descriptor, so that no process started from here reads it.

    It is the read end of a pipe whose write end the launcher holds; Slurm, Docker and Singularity pass it on.
    """
    launcher_pipe = os.dup(0)
    with open(os.devnull) as null:
        os.dup2(null.fileno(), 0)
    return launcher_pipe


def shell_status(code: int) -> int:
    """Return the exit status that a shell shows: 128 plus the signal's number for a killed process."""
    return 128 - code if code < 0 else code
