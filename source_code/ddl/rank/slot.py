"""A rank's slot, in Horovod's word: which rank of which node it is."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddl.errors import NotFound

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11 on

SLURMS = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NNODES")
HOROVODS = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size", "hostname")


@dataclass(frozen=True)
class Slot:
    """One rank's slot among `size` ranks, in Horovod's words: `cross_rank` is its node's number of `cross_size`.

    Nodes are filled one after the other.
    """

    rank: int
    size: int
    local_rank: int
    cross_rank: int
    cross_size: int

    @classmethod
    def here(cls, variables: Mapping[str, str] = os.environ) -> "Self":
        """Read the slot of this task of Slurm from its environment."""
        missing = [name for name in SLURMS if name not in variables]
        if missing:
            raise NotFound(f"{', '.join(missing)} must be set: start tasks with srun")
        return cls(*(int(variables[name]) for name in SLURMS))

    @property
    def local_size(self) -> int:
        return self.size // self.cross_size

    @property
    def hostname(self) -> str:
        return f"node{self.cross_rank}"  # any name will do that ranks of a node share

    @property
    def horovod(self) -> dict[str, str]:
        """Horovod's variables: HOROVOD_RANK, HOROVOD_SIZE and others."""
        return {f"HOROVOD_{name.upper()}": str(getattr(self, name)) for name in HOROVODS}


def slots(ranks: int, nodes: int) -> list[Slot]:
    """Return every rank's slot; tasks of tf.distribute may fill the last node in part."""
    per_node = -(-ranks // nodes)
    return [Slot(rank, ranks, rank % per_node, rank // per_node, nodes) for rank in range(ranks)]
