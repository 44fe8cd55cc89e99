"""The GPUs that a rank sees, and how it takes their memory."""

import os
from collections.abc import MutableMapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ddl.job.run_options import RunOptions
from ddl.job.tf_cluster_roles import Roles
from ddl.records.stack import for_processors
from ddl.text import plural

NO_GPU = "-1"  # as CUDA_VISIBLE_DEVICES: CUDA ignores an invalid entry and all after it


def prepare(options: RunOptions, environment: MutableMapping[str, str] = os.environ) -> str:
    """Set the variables that decide which GPUs this rank sees, before CUDA reads them; return a note or "".

    If a host has fewer GPUs than ranks that train, the ranks share them, unless they would exchange data with NCCL,
    which needs a GPU for each rank: then all of them compute on processor cores.
    """
    # CUDA's default puts the fastest card first; nvidia-smi, whose numbers a site and a user know, goes by the bus.
    environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    # Otherwise the first process on a GPU takes all of its memory.
    environment.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    ranks, gpus = int(environment.get("HOROVOD_LOCAL_SIZE", "1")), options.gpus_per_node
    ranks -= options.cluster == "parameter_server" and 1 + options.parameter_servers
    if not 0 < gpus < ranks or (options.cluster != "torchrun" and for_processors()):
        return ""
    if options.cluster == "horovod":
        through_nccl = horovod_has_nccl()
    else:  # by default; with oversubscribe, the user's script has chosen something else
        through_nccl = options.cluster in ("multi_worker", "torchrun") and not options.oversubscribe
    if not through_nccl:
        return f"{ranks} ranks share {plural(gpus, 'GPU')}, so they are no faster than one rank per GPU"
    environment["CUDA_VISIBLE_DEVICES"] = NO_GPU
    return f"ranks compute on processor cores: NCCL needs a GPU for each of the {ranks} ranks, and the site has {gpus}"


def horovod_has_nccl() -> bool:
    """Return whether this environment's Horovod exchanges tensors on GPUs with NCCL, without loading it."""
    found = find_spec("horovod")
    folders = found.submodule_search_locations or () if found else ()
    libraries = [file for folder in folders for file in Path(folder).glob("*/mpi_lib*.so")]
    return any(b"ncclAllReduce" in file.read_bytes() for file in libraries)


def visible_devices(rank: int, local_rank: int, roles: Roles, devices: Sequence[str]) -> str:
    """Return ``CUDA_VISIBLE_DEVICES`` for a task: one of its host's `devices` if it is a worker, else none."""
    if not devices or roles[rank][0] != "worker":
        return ""
    before = sum(type == "worker" for type, _ in roles[rank - local_rank : rank])
    return devices[before % len(devices)]
