"""Where a run goes: this machine, or (through a scheduler and a container) a cluster's."""

import functools
import math
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Site", "SiteError", "gpu_names", "usable_cores"]

SCHEDULERS = ("local", "slurm")
CONTAINERS = ("none", "docker", "singularity")
CONTROLLERS = ("gloo", "mpi")


class SiteError(ValueError):
    """A site cannot be what its description says, or cannot hold a job."""


def usable_cores():
    """Number of processor cores that this process may use: affinity and cgroup limit counted."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):
        pass  # cgroup v1, or no cgroup at all: affinity is all there is to know
    return cores


@functools.cache
def gpu_names():
    """Names of the GPUs that this process may use, as ``nvidia-smi -L`` lists them."""
    if not shutil.which("nvidia-smi"):
        return ()
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return ()  # a driver that doesn't answer has no GPU to offer
    names = [line.split(":", 1)[1].split("(")[0].strip()
             for line in listed.stdout.splitlines() if line.startswith("GPU ")]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = names[: len([device for device in visible.split(",") if device.strip()])]
    return tuple(names)


@dataclass(frozen=True)
class Site:
    """One place to run in. The fields are the keys of a site file, the last three excepted.

    Parameters
    ----------
    scheduler : {"local", "slurm"}
        Who starts the processes: this machine, or Slurm.
    container : {"none", "docker", "singularity"}
        What they are wrapped in.
    controller : {"gloo", "mpi"}
        How Horovod's ranks find each other.
    cores_per_node, gpus_per_node : int
        What one node has. With no GPUs, ranks run on cores.
    nodes : int
        How many nodes a job may spread over.
    python : str
        The interpreter that every rank runs; empty: this one, or ``python`` in a container.
    partition, account, reservation : str
        Slurm's; empty leaves the cluster's default.
    time_limit : str
        As Slurm writes it (``30``, ``1:00:00``, ``1-12``); empty leaves the partition's.
    time_limit_warning_s : int
        So long before the time limit ends, scripts are told to checkpoint.
    gpu_option : str
        How GPUs are asked for; ``{n}`` becomes their number on a node.
    gpu_type : str
        Put in front of that number: ``a100`` gives ``--gres=gpu:a100:4``.
    scheduler_arguments : tuple of str
        More options for Slurm.
    modules : tuple of str
        What ``module load`` loads before anything else.
    image : str
        The container's image: a .sif file, or Docker's name of it.
    binds : tuple of str
        Folders that the container sees besides the course's own: ``/host[:/inside[:ro]]``.
    container_arguments : tuple of str
        More options for the container.
    pass_environment : tuple of str
        Names of variables that cross into the job and the container, besides those needed.
    network_interfaces : tuple of str
        What ranks on several nodes talk through; empty: the one that leads to rank 0's node.
    origin : str
        Where these values come from, for people.
    inside : str
        The container that this process runs in already; empty outside.
    allocation : str
        The Slurm job that this process runs in already; empty outside.

    Raises
    ------
    SiteError
        For a value that is not one of those above; the message lists the valid ones.
    """

    scheduler: str = "local"
    container: str = "none"
    controller: str = "gloo"
    cores_per_node: int = 1
    gpus_per_node: int = 0
    nodes: int = 1
    python: str = ""
    partition: str = ""
    account: str = ""
    reservation: str = ""
    time_limit: str = ""
    time_limit_warning_s: int = 120
    gpu_option: str = "--gres=gpu:{n}"
    gpu_type: str = ""
    scheduler_arguments: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    image: str = ""
    binds: tuple[str, ...] = ()
    container_arguments: tuple[str, ...] = ()
    pass_environment: tuple[str, ...] = ()
    network_interfaces: tuple[str, ...] = ()
    origin: str = ""
    inside: str = ""
    allocation: str = ""

    def __post_init__(self):
        for field, valid in (
            ("scheduler", SCHEDULERS), ("container", CONTAINERS), ("controller", CONTROLLERS)
        ):
            value = getattr(self, field)
            if value not in valid:
                raise SiteError(f"site: {field} = {value!r} is not one of: {', '.join(valid)}")
        if self.cores_per_node < 1 or self.gpus_per_node < 0:
            raise SiteError(f"site: {self.cores_per_node} cores and {self.gpus_per_node} GPUs: "
                            "at least one core")

    @classmethod
    def detect(cls):
        """Return the site that this process is on."""
        return cls(cores_per_node=usable_cores(), gpus_per_node=len(gpu_names()))

    @property
    def slots(self):
        """How many ranks run without sharing a device: one per GPU, or one per core."""
        return self.gpus_per_node or self.cores_per_node

    def check(self, job):
        """Refuse a job with more ranks than this site has devices for.

        Raises
        ------
        SiteError
            Naming the largest number of workers that fits.
        """
        if job.workers > self.slots and not job.oversubscribe:
            device = "GPU" if self.gpus_per_node else "core"
            raise SiteError(
                f"{job.workers} workers asked for, but there {'is' if self.slots == 1 else 'are'} "
                f"{self.slots} {device}{'' if self.slots == 1 else 's'} here: workers={self.slots} "
                f"works. To share {device}s between ranks all the same (slower than "
                f"{self.slots}), pass oversubscribe=True (ddl run --oversubscribe)."
            )

    def threads_per_rank(self, job):
        """Threads for each rank: what the job asks for, else an equal share of the cores."""
        return job.threads or max(1, self.cores_per_node // job.workers)
