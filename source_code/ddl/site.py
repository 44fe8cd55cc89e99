"""Where a run goes: this machine, or (through a scheduler and a container) a cluster's."""

import functools
import math
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Site", "SiteError", "gpu_names", "usable_cores"]

SCHEDULERS = ("local",)
CONTAINERS = ("none",)
CONTROLLERS = ("gloo",)


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
    """One place to run in.

    Parameters
    ----------
    scheduler : {"local"}
        Who starts the processes.
    container : {"none"}
        What they are wrapped in.
    controller : {"gloo"}
        How Horovod's ranks find each other.
    cores, gpus : int
        What one node has. With no GPUs, ranks run on cores.
    python : str
        The interpreter that every rank runs.

    Raises
    ------
    SiteError
        For a value that is not one of those above; the message lists the valid ones.
    """

    scheduler: str = "local"
    container: str = "none"
    controller: str = "gloo"
    cores: int = 1
    gpus: int = 0
    python: str = sys.executable

    def __post_init__(self):
        for field, valid in (
            ("scheduler", SCHEDULERS), ("container", CONTAINERS), ("controller", CONTROLLERS)
        ):
            value = getattr(self, field)
            if value not in valid:
                raise SiteError(f"site: {field} = {value!r} is not one of: {', '.join(valid)}")
        if self.cores < 1 or self.gpus < 0:
            raise SiteError(f"site: {self.cores} cores and {self.gpus} GPUs: at least one core")

    @classmethod
    def detect(cls):
        """Return the site that this process is on."""
        return cls(cores=usable_cores(), gpus=len(gpu_names()))

    @property
    def slots(self):
        """How many ranks run without sharing a device: one per GPU, or one per core."""
        return self.gpus or self.cores

    def check(self, job):
        """Refuse a job with more ranks than this site has devices for.

        Raises
        ------
        SiteError
            Naming the largest number of workers that fits.
        """
        if job.workers > self.slots and not job.oversubscribe:
            device = "GPU" if self.gpus else "core"
            raise SiteError(
                f"{job.workers} workers asked for, but there {'is' if self.slots == 1 else 'are'} "
                f"{self.slots} {device}{'' if self.slots == 1 else 's'} here: workers={self.slots} "
                f"works. To share {device}s between ranks all the same (slower than "
                f"{self.slots}), pass oversubscribe=True (ddl run --oversubscribe)."
            )

    def threads_per_rank(self, job):
        """Threads for each rank: what the job asks for, else an equal share of the cores."""
        return job.threads or max(1, self.cores // job.workers)
