"""Find and end the processes of a run: all that carry its id in their environment, or have its job mapped.

``DDL_RUN_ID`` marks all of them, the launching side's too: an ``srun`` may run on the same host as the ranks.
``DDL_RANKS_OF`` marks the ranks and what they start, and nothing else. Forks of a template have that one's environment,
and so have their own: these have the run's ``job.json`` mapped into their memory (`ddl.rank.fork`).
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

TEMPLATE = "DDL_TEMPLATE"  # in the environment of templates


def of_run(run_id: str, besides: Collection[int] = (), mark: str = "DDL_RUN_ID") -> list[int]:
    """Return the ids of a run's processes, of this user and on this host, but for those `besides`."""
    wanted = f"{mark}={run_id}".encode()
    mapped = f"/{run_id}/job.json".encode()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) not in besides:
            with contextlib.suppress(OSError):  # it ended meanwhile, or is another user's
                variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")  # a zombie's is empty
                forked = f"{TEMPLATE}=1".encode() in variables and mapped in Path(f"/proc/{name}/maps").read_bytes()
                if forked or wanted in variables:
                    found.append(int(name))
    return found


def end(run_id: str, besides: Collection[int] = (), grace_s: float = 1.0, mark: str = "DDL_RUN_ID") -> None:
    """End every process of a run: asked first, killed after `grace_s` seconds."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        found = of_run(run_id, besides, mark)
        for pid in found:
            send(pid, number)
        if not found:
            return
        wait_until(lambda: not of_run(run_id, besides, mark), grace_s)


def wait_until(condition: Callable[[], bool], timeout_s: float, every_s: float = 0.05) -> None:
    """Wait until `condition` holds, or the time is over."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(every_s)


def send(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
