"""A queue for shared cores: runs of several users on one machine wait for cores instead of sharing them.

``DDL_QUEUE`` names a folder that all users can write to. In it, each run has a ticket: a file with the number of cores
it needs. A run starts when the runs before it leave enough cores free. It keeps its ticket locked (``flock``), so the
kernel frees the cores however the supervisor ends.
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
    """A run's place in the queue, and later its cores.

    The run needs `need` of the machine's `cores` (by default those that this process may use). `name` tells other users
    who has the cores.
    """

    def __init__(self, folder: Path, need: int, name: str, cores: int | None = None):
        self._cores = cores or len(os.sched_getaffinity(0))
        self._need, self._folder = min(need, self._cores), folder
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(0o1777)  # for all users, like /tmp
        queue = os.open(folder, os.O_RDONLY)
        fcntl.flock(queue, fcntl.LOCK_EX)  # later runs find this ticket, already locked
        self._file = folder / f"ticket-{time.monotonic_ns():020}-{os.getpid()}"
        self._held = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        os.fchmod(self._held, 0o644)
        fcntl.flock(self._held, fcntl.LOCK_EX)
        os.write(self._held, json.dumps({"need": self._need, "name": name}).encode())
        os.close(queue)

    @classmethod
    def of(cls, folder: RunFolder) -> "Ticket | None":
        """Return the ticket of a run; None without a queue."""
        queue = os.environ.get(QUEUE)
        if not queue:
            return None
        job = read_json(folder.job) or {}
        ranks, cores = job.get("processes", 1), len(os.sched_getaffinity(0))
        need = ranks * (job.get("threads") or max(1, cores // ranks))
        return cls(Path(queue), need, f"{getpass.getuser()}'s {json.dumps(job.get('name', ''))}")

    def waits_for(self) -> str:
        """Say what the run waits for; empty if it may start."""
        free, names, waiting = self._cores, [], 0
        for path in sorted(self._folder.glob("ticket-*")):
            if path < self._file and (ticket := _held_ticket(path)):
                need = min(ticket["need"], self._cores)
                if need <= free and not waiting:
                    free -= need
                    names.append(ticket["name"])
                else:
                    waiting += 1
        if self._need <= free and not waiting:
            return ""
        before = f", behind {waiting} other{'s' * (waiting > 1)}" if waiting else ""
        return f"waiting for {self._need} of {self._cores} cores{before}; used by {' and '.join(names)}"

    def give_back(self) -> None:
        """Free the cores, or the place in the queue."""
        self._file.unlink(missing_ok=True)
        os.close(self._held)


def _held_ticket(path):
    """Return a ticket's content; None if its process has ended."""
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return read_json(path)
    except OSError:  # it was removed just now
        return None
    with contextlib.suppress(OSError):  # users can't remove each other's files there
        path.unlink()
    return None
