"""Find and end the processes of a run: all that carry its id in their environment.

``DDL_RUN_ID`` marks all of them, the launching side's too: an ``srun`` may run on the same host as
the ranks. ``DDL_RANKS_OF`` marks the ranks and what they start, and nothing else.
"""

import os
import re
import signal
import time
from pathlib import Path

from ddl.records.folder import stack_of

__all__ = ["cpu_seconds", "end", "of_run", "send", "take_lifeline", "waits"]

STACKS_S = 0.5
LIBRARY = re.compile(r"/(horovod|tensorflow|keras)/|horovod_")


def of_run(run_id, besides=(), mark="DDL_RUN_ID"):
    """Return the process ids, of this user and on this host, that belong to a run.

    Parameters
    ----------
    run_id : str
    besides : iterable of int
        Process ids to leave out.
    mark : {"DDL_RUN_ID", "DDL_RANKS_OF"}
        The variable that tells.
    """
    mark = f"{mark}={run_id}".encode()
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


def end(run_id, besides=(), grace_s=1.0, mark="DDL_RUN_ID"):
    """End every process of a run: asked first, killed after `grace_s` seconds.

    Returns
    -------
    list of int
        Process ids that are still there (stuck in the kernel); empty as a rule.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in of_run(run_id, besides, mark):
            send(pid, number)
        deadline = time.monotonic() + grace_s
        while of_run(run_id, besides, mark) and time.monotonic() < deadline:
            time.sleep(0.05)
    return of_run(run_id, besides, mark)


def send(pid, number):
    """Send a signal to a process, which may have ended meanwhile."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def waits(pid, stack):
    """Whether a rank waits for others; it takes half a second to find out.

    Horovod knows too, but only says so in a log. A rank that waits in a collective operation (or
    in ``hvd.init()``) is inside Horovod or TensorFlow and uses hardly any processor time.

    Parameters
    ----------
    pid : int
        The rank's process, which answers SIGUSR1 with its stack (`ddl.rank` sees to that).
    stack : Path
        Where the stack goes.
    """
    send(pid, signal.SIGUSR1)
    before = cpu_seconds(pid)
    time.sleep(STACKS_S)
    idle = cpu_seconds(pid) - before < STACKS_S / 2
    return idle and bool(LIBRARY.search(stack_of(stack).split("\n")[0]))


def take_lifeline():
    """Keep standard input, a pipe that ends with the launcher, from this process' children.

    The same pipe serves everywhere: Slurm, Docker and Singularity all pass standard input on.

    Returns
    -------
    int
        A file descriptor: reading it returns nothing when the launcher is gone.
    """
    lifeline = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return lifeline
