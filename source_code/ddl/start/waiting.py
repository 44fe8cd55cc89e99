"""Find out which ranks wait for others.

Two questions are asked. In a silent run, each rank is asked for its stack: one inside Horovod, TensorFlow or PyTorch
that uses almost no processor time is waiting (`waits`). In a run that makes progress, a few samples a second show
which ranks sleep in all their threads; the others wait for the rank that never sleeps (`Straggler`).
"""

import contextlib
import re
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from ddl.follow.processes import handles_signal
from ddl.records.folder import STACK_SIGNAL, stack_of

STACK_S = 0.5
LIBRARY = re.compile(r"/(horovod|tensorflow|keras|torch)/|horovod_")

SAMPLE_S = 0.5
SAMPLES = 16  # in a window of eight seconds
BUSY, IDLE = 0.85, 0.6  # shares of the window: at least for a straggler, at most for all others
AT_WORK = ("R", "D", "T")  # states of a thread: running, in the kernel, stopped


def waits(pid: int, stack: Path) -> bool:
    """Return whether a rank waits for others in a collective operation or ``hvd.init()``; this takes half a second.

    The rank answers a signal by writing its stack to the file `stack`. A `pid` of 0: not started yet.
    """
    import psutil  # takes 10 ms, which would delay every start

    if not pid:
        return False
    try:
        process = psutil.Process(pid)
        if not handles_signal(pid, STACK_SIGNAL) or process.status() == psutil.STATUS_STOPPED:
            return False  # the signal would end another program, and a stopped process can't answer
        process.send_signal(STACK_SIGNAL)
        before = process.cpu_times()
        time.sleep(STACK_S)
        after = process.cpu_times()
    except psutil.NoSuchProcess:
        return False
    idle = after.user + after.system - before.user - before.system < STACK_S / 2
    return idle and bool(LIBRARY.search(stack_of(stack).split("\n")[0]))


class Straggler:
    """Finds the rank that the others wait for from samples of which ranks are at work."""

    def __init__(self) -> None:
        self._samples: deque[Sequence[bool]] = deque(maxlen=SAMPLES)

    def add(self, at_work: Sequence[bool]) -> int | None:
        """Add a sample, one value per rank; return the index of the straggler, or None."""
        self._samples.append(at_work)
        if len(self._samples) < SAMPLES or len(at_work) < 2:
            return None
        shares = [sum(each) / SAMPLES for each in zip(*self._samples, strict=True)]
        slowest = max(range(len(shares)), key=shares.__getitem__)
        others = max(share for rank, share in enumerate(shares) if rank != slowest)
        return slowest if shares[slowest] >= BUSY and others <= IDLE else None


def at_work(pid: int) -> bool:
    """Return whether a thread of a process computes or is ready to; False if the process is gone."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has just ended
                if (thread / "stat").read_text().rpartition(")")[2].split()[0] in AT_WORK:
                    return True
    return False
