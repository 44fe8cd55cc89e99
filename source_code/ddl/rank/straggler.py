"""Which rank the others of one host wait for while the run goes on: a slower one, or one with more to do.

Nothing is sent to the ranks. A rank that waits sleeps in all its threads; one that computes, or would if it were let,
has a thread that the kernel calls running, uninterruptible or stopped.
"""

import contextlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path

EVERY_S = 0.5
SAMPLES = 16  # that make a window of eight seconds
BUSY, IDLE = 0.85, 0.6  # shares of the window: of a straggler at least, of all others at most
AT_WORK = ("R", "D", "T")


class Straggler:
    """Finds the straggler among ranks of which a few samples a second say who is at work."""

    def __init__(self) -> None:
        self._samples: deque[Sequence[bool]] = deque(maxlen=SAMPLES)

    def add(self, at_work: Sequence[bool]) -> int | None:
        """Add a sample, one value for each rank; return the index of the rank that the others wait for, or None."""
        self._samples.append(at_work)
        if len(self._samples) < SAMPLES or len(at_work) < 2:
            return None
        shares = [sum(each) / SAMPLES for each in zip(*self._samples, strict=True)]
        slowest = max(range(len(shares)), key=shares.__getitem__)
        others = max(share for rank, share in enumerate(shares) if rank != slowest)
        return slowest if shares[slowest] >= BUSY and others <= IDLE else None


def at_work(pid: int) -> bool:
    """Whether a thread of a process computes, or would; False of one that is gone."""
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it ended at this moment
                if (thread / "stat").read_text().rpartition(")")[2].split()[0] in AT_WORK:
                    return True
    return False
