"""Where a rank is among the others, as the one who starts its task says: Slurm, or `ddl.rank.hosts`."""

import os
from dataclasses import astuple, dataclass

__all__ = ["VARIABLE", "Place", "places"]

VARIABLE = "DDL_PLACE"
SLURMS = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES")


@dataclass(frozen=True)
class Place:
    """One rank's place.

    Parameters
    ----------
    rank, size : int
        Among all ranks, and how many these are.
    local_rank : int
        Among the ranks of its node.
    node, nodes : int
        Which node, and how many there are. Nodes are filled one after the other.
    """

    rank: int
    size: int
    local_rank: int
    node: int
    nodes: int

    @classmethod
    def here(cls, variables=os.environ):
        """Read the place of this task from its environment.

        Raises
        ------
        LookupError
            Where neither Slurm nor `ddl.rank.hosts` has started this process.
        """
        if VARIABLE in variables:
            return cls(*map(int, variables[VARIABLE].split()))
        missing = [name for name in SLURMS if name not in variables]
        if missing:
            raise LookupError(
                f"{', '.join(missing)} not set: a task is started by srun, or by python -m ddl.rank.hosts"
            )
        return cls(*(int(variables[name]) for name in SLURMS))

    @property
    def variables(self):
        """What `here` reads, as a dictionary."""
        return {VARIABLE: " ".join(map(str, astuple(self)))}

    @property
    def horovod(self):
        """The same as Horovod's variables, by name: HOROVOD_RANK, HOROVOD_SIZE and others."""
        return {
            "HOROVOD_RANK": str(self.rank),
            "HOROVOD_SIZE": str(self.size),
            "HOROVOD_LOCAL_RANK": str(self.local_rank),
            "HOROVOD_LOCAL_SIZE": str(self.size // self.nodes),
            "HOROVOD_CROSS_RANK": str(self.node),
            "HOROVOD_CROSS_SIZE": str(self.nodes),
            "HOROVOD_HOSTNAME": f"node{self.node}",  # as in `rendezvous.host_plan`
        }


def places(ranks, nodes):
    """Every rank's place, where nodes are filled one after the other.

    Returns
    -------
    list of Place
    """
    each = -(-ranks // nodes)
    return [Place(rank, ranks, rank % each, rank // each, nodes) for rank in range(ranks)]
