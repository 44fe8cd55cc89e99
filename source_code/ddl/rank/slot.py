"""A rank's slot, in Horovod's word: which rank of which node it is. Slurm, or `ddl.rank.hosts`, says so to its task."""

import os
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

from ddl.errors import NotFound

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11 on

VARIABLE = "DDL_SLOT"
SLURMS = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES")


@dataclass(frozen=True)
class Slot:
    """One rank's slot: among `size` ranks, among those of its node, and on which of the nodes.

    Nodes are filled one after the other.
    """

    rank: int
    size: int
    local_rank: int
    node: int
    nodes: int

    @classmethod
    def here(cls, variables: Mapping[str, str] = os.environ) -> "Self":
        """Read the slot of this task from its environment.

        Raises
        ------
        NotFound
            Where neither Slurm nor `ddl.rank.hosts` has started this process.
        """
        if VARIABLE in variables:
            return cls(*map(int, variables[VARIABLE].split()))
        missing = [name for name in SLURMS if name not in variables]
        if missing:
            raise NotFound(f"{', '.join(missing)} not set: a task is started by srun, or by python -m ddl.rank.hosts")
        return cls(*(int(variables[name]) for name in SLURMS))

    @property
    def variables(self) -> dict[str, str]:
        """The environment that `here` reads."""
        return {VARIABLE: " ".join(map(str, astuple(self)))}

    @property
    def horovod(self) -> dict[str, str]:
        """The same as Horovod's variables: HOROVOD_RANK, HOROVOD_SIZE and others."""
        return {
            "HOROVOD_RANK": str(self.rank),
            "HOROVOD_SIZE": str(self.size),
            "HOROVOD_LOCAL_RANK": str(self.local_rank),
            "HOROVOD_LOCAL_SIZE": str(self.size // self.nodes),
            "HOROVOD_CROSS_RANK": str(self.node),
            "HOROVOD_CROSS_SIZE": str(self.nodes),
            "HOROVOD_HOSTNAME": f"node{self.node}",  # as in `rendezvous.host_plan`
        }


def slots(ranks: int, nodes: int) -> list[Slot]:
    """Return every rank's slot."""
    per_node = -(-ranks // nodes)
    return [Slot(rank, ranks, rank % per_node, rank // per_node, nodes) for rank in range(ranks)]
