"""A queue for shared cores: launches of several people on one machine wait for cores instead of fighting for them.

``DDL_QUEUE`` names a folder that all of them can write into. In it, ``core-<k>`` stands for each core, and
``ticket-<time>-<process>`` for each launch that waits, first come, first served. What is held is locked (``flock``) by
the process that launches, so that the kernel frees it however that process ends.
"""

import contextlib
import fcntl
import getpass
import json
import os
import time
from pathlib import Path

from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

QUEUE = "DDL_QUEUE"


class Ticket:
    """A launch's place in the queue, and then its cores.

    Parameters
    ----------
    folder
        The queue's; it is made where it is missing.
    need
        How many cores the launch computes on; at most all are taken.
    name
        What the others are told has the cores.
    cores
        How many the machine has; by default those that this process may use.
    """

    def __init__(self, folder: Path, need: int, name: str, cores: int | None = None):
        total = cores or len(os.sched_getaffinity(0))
        self._folder, self._need, self._name = folder, min(need, total), name
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(0o1777)  # everybody's, like /tmp
        self._cores = [folder / f"core-{number}" for number in range(total)]
        self._held: list[int] = []
        self._file = folder / f"ticket-{time.time_ns():020}-{os.getpid()}"
        self._waiting = _locked(self._file)

    def take(self) -> str:
        """Take the cores, if it is this launch's turn and they are free; return what it waits for, or ""."""
        with self._alone():
            before = [ticket for ticket in sorted(self._folder.glob("ticket-*")) if ticket < self._file]
            before = [ticket for ticket in before if not _left(ticket)]
            held = [] if before else list(filter(None, map(_locked, self._cores)))
            if len(held) >= self._need:
                self._held, spare = held[: self._need], held[self._need :]
                for core in self._held:
                    os.truncate(core, 0)
                    os.pwrite(core, self._name.encode(), 0)
                self._give_up_place()
            else:
                spare = held
            for core in spare:
                os.close(core)
            return "" if self._held else self._waits_for(len(before))

    def give_back(self) -> None:
        """Give the cores back, or the place in the queue."""
        for core in self._held:
            os.close(core)
        self._held = []
        self._give_up_place()

    def _give_up_place(self):
        if self._waiting is not None:
            self._file.unlink(missing_ok=True)
            os.close(self._waiting)
            self._waiting = None

    def _waits_for(self, before):
        names = dict.fromkeys(core.read_text(errors="replace") for core in self._cores if _is_held(core))
        busy = f"; they are with {' and '.join(names)}" if names else ""
        first = f", {before} before this one" if before else ""
        return f"waits for {self._need} of {len(self._cores)} cores{first}{busy}"

    @contextlib.contextmanager
    def _alone(self):
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @classmethod
    def of(cls, folder: RunFolder) -> "Ticket | None":
        """Return the ticket of a run; None where there is no queue."""
        queue = os.environ.get(QUEUE)
        if not queue:
            return None
        job = read_json(folder.job) or {}
        ranks, cores = job.get("processes", 1), len(os.sched_getaffinity(0))
        need = ranks * (job.get("threads") or max(1, cores // ranks))
        return cls(Path(queue), need, f"{getpass.getuser()}'s {json.dumps(job.get('name', ''))}")


def _locked(path):
    """Return an open descriptor of a file that this process has locked now; None where another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with contextlib.suppress(PermissionError):  # another's file
        os.chmod(descriptor, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_held(path):
    descriptor = _locked(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _left(ticket):
    """Whether nobody waits with a ticket any more: its process has ended; then it goes."""
    try:
        held = _is_held(ticket)
    except OSError:
        return True  # it went at this moment
    if not held:
        ticket.unlink(missing_ok=True)
    return not held
