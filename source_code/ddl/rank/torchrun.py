"""What torchrun tells each rank of a PyTorch script, told by `ddl.rank.worker` (``launch(..., cluster="torchrun")``).

The script finds the variables that PyTorch's documentation of torchrun lists under "Environment Variables", and
``init_process_group`` needs nothing else. torchrun itself does not run: it would stand between the ranks and their
supervisor, which could then neither say by which signal a rank was killed, nor start a rank as a task of Slurm.
The same script runs under torchrun, too.
"""

import os
from collections.abc import Mapping

from ddl.rank import cluster
from ddl.records.network import interface_of

BY_HOROVOD = {  # by Horovod's names, which every rank has
    "RANK": "HOROVOD_RANK",
    "WORLD_SIZE": "HOROVOD_SIZE",
    "LOCAL_RANK": "HOROVOD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "HOROVOD_LOCAL_SIZE",
    "GROUP_RANK": "HOROVOD_CROSS_RANK",
}


def variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Wait for rank 0's address, where all ranks meet; return the environment that torchrun would give this rank.

    Gloo and NCCL are told this host's interface: left to themselves they look the host's name up.
    """
    [meeting] = cluster.await_addresses(["rank 0"])
    host, _, port = meeting.rpartition(":")
    interface = interface_of(environment.get("DDL_ADDRESS", "127.0.0.1"))
    return {
        **{name: environment[horovods] for name, horovods in BY_HOROVOD.items()},
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
    }
