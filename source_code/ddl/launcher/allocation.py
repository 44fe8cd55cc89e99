"""The Slurm job that this process runs in already, from the variables that Slurm sets there."""

import os
import re
from dataclasses import dataclass

__all__ = ["Allocation"]


@dataclass(frozen=True)
class Allocation:
    """What Slurm gave to this process.

    Parameters
    ----------
    job : str
        Its number.
    nodes : int
    node : str
        Slurm's name of the node that this process is on; empty on a host beside the allocation,
        such as the login node where ``salloc`` was typed.
    cores_per_node, gpus_per_node : int or None
        What each node gives, at least; None where Slurm doesn't say.
    """

    job: str
    nodes: int
    node: str = ""
    cores_per_node: int | None = None
    gpus_per_node: int | None = None

    @classmethod
    def here(cls):
        """Return the allocation that this process is in, or None."""
        job = os.environ.get("SLURM_JOB_ID")
        if not job:
            return None
        return cls(
            job=job,
            nodes=_least("SLURM_JOB_NUM_NODES") or 1,
            node=os.environ.get("SLURMD_NODENAME", ""),
            cores_per_node=_least("SLURM_JOB_CPUS_PER_NODE"),
            gpus_per_node=_least("SLURM_GPUS_ON_NODE"),
        )

    @property
    def around(self):
        """Whether all of it is the one node that this process is on."""
        return self.nodes == 1 and bool(self.node)

    def __str__(self):
        where = f"on {self.node}" if self.around else (f"on {self.nodes} node{'s' * (self.nodes > 1)}")
        return f"inside Slurm job {self.job} {where}"


def _least(name):
    """The smallest number in a variable such as ``4``, ``8(x2)`` or ``72(x2),36``; or None."""
    counts = re.findall(r"(?:^|,)(\d+)", os.environ.get(name, ""))
    return min(map(int, counts), default=None)
