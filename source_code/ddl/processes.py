"""Find and end the processes of a run: all that carry its id in their environment."""

import os
import signal
import time
from pathlib import Path

__all__ = ["cpu_seconds", "end", "of_run", "send"]


def of_run(run_id, besides=()):
    """Return the process ids, of this user and on this host, that belong to a run.

    Parameters
    ----------
    run_id : str
    besides : iterable of int
        Process ids to leave out.
    """
    mark = f"DDL_RUN_ID={run_id}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in besides:
            continue
        try:
            if mark in (entry / "environ").read_bytes().split(b"\0") and not _is_zombie(entry):
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found


def _is_zombie(entry):
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def cpu_seconds(pid):
    """Processor time that a process has used so far, in seconds; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end(run_id, besides=(), grace_s=1.0):
    """End every process of a run: asked first, killed after `grace_s` seconds.

    Returns
    -------
    list of int
        Process ids that are still there (stuck in the kernel); empty as a rule.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in of_run(run_id, besides):
            send(pid, number)
        deadline = time.monotonic() + grace_s
        while of_run(run_id, besides) and time.monotonic() < deadline:
            time.sleep(0.05)
    return of_run(run_id, besides)


def send(pid, number):
    """Send a signal to a process, which may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
