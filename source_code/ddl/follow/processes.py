"""Find and end the processes of a run by a mark in their environment.

``DDL_RUN_ID`` marks all of them, including the launching side: an ``srun`` may run on the same host as the ranks.
``DDL_RANKS_OF`` marks the ranks and their children only. /proc shows a process's environment as it was when it started,
so a process can't lose its mark, even in a new session.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path


def of_run(run_id: str, besides: Collection[int] = (), mark: str = "DDL_RUN_ID") -> list[int]:
    """Return the ids of a run's processes of this user on this host, except those `besides`."""
    wanted = f"{mark}={run_id}".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in besides:
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):  # empty for a zombie
                    found.append(int(name))
    return found


def end(run_id: str, besides: Collection[int] = (), grace_s: float = 1.0, mark: str = "DDL_RUN_ID") -> None:
    """End every process of a run: send SIGTERM, and SIGKILL after `grace_s` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = of_run(run_id, besides, mark)
        for pid in found:
            send(pid, number)
        if not found:
            return
        wait_until(lambda: not of_run(run_id, besides, mark), grace_s)


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.05) -> None:
    """Wait until `condition` holds or the timeout has passed."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(every_s)


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may have ended already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def handles_signal(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal."""
    try:
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return False
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)
