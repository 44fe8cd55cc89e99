"""Keep nodes of a Slurm cluster for several launches, so that each starts without waiting in the queue."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from ddl.job.plan import allocation_options
from ddl.job.site import Site, SiteError
from ddl.job.slurm import SlurmError

# Variables that describe an allocation to srun and to `ddl.job.slurm.Allocation`.
VARIABLES = ("SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_JOB_CPUS_PER_NODE", "SLURM_GPUS_ON_NODE", "SLURMD_NODENAME")


@contextmanager
def allocation(nodes: int = 1, site: Site | str | Path | None = None) -> Iterator[str]:
    """Allocate whole `nodes` of a site's Slurm cluster, and yield the job's id.

    Launches within the ``with`` block run in the allocation, without queueing again; its end releases the nodes. An
    interrupt while waiting in the queue cancels the request.

    Raises
    ------
    SiteError
        If the site has no Slurm or fewer nodes, or this process is in an allocation already.
    SlurmError
        If Slurm refuses the request.
    """
    site = _checked(site, nodes)
    job = _granted(["salloc", "--no-shell", *allocation_options(site, nodes)])
    before = {name: os.environ.pop(name, None) for name in VARIABLES}
    os.environ |= {"SLURM_JOB_ID": job, "SLURM_JOB_NUM_NODES": str(nodes)}
    os.environ["SLURM_JOB_CPUS_PER_NODE"] = f"{site.cores_per_node}(x{nodes})"
    if site.gpus_per_node:
        os.environ["SLURM_GPUS_ON_NODE"] = str(site.gpus_per_node)
    try:
        yield job
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ |= {name: value for name, value in before.items() if value is not None}
        subprocess.run(["scancel", job], check=False)


def open_shell(nodes: int = 1, site: Site | str | Path | None = None) -> None:
    """Replace this process by a shell with an allocation (``salloc``); `ddl run` in that shell uses it."""
    site = _checked(site, nodes)
    command = ["salloc", *allocation_options(site, nodes)]
    os.execvp(command[0], command)


def _checked(site: Site | str | Path | None, nodes: int) -> Site:
    site = site if isinstance(site, Site) else Site.here(site)
    if site.scheduler != "slurm":
        raise SiteError(f'an allocation needs a site with scheduler = "slurm"; this one has "{site.scheduler}"')
    if site.allocation:
        raise SiteError(f"this process is in Slurm job {site.allocation} already: launches run in it")
    if not shutil.which("salloc"):
        raise SlurmError("salloc is not on this machine's path")
    if type(nodes) is not int or not 1 <= nodes <= site.nodes:
        raise SiteError(f"nodes must be an integer from 1 to {site.nodes}, got {nodes!r}")
    return replace(site, nodes=nodes)


def _granted(command: list[str]) -> str:
    """Wait in Slurm's queue; return the id of the job."""
    answer = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    found = re.search(r"Granted job allocation (\d+)", answer.stderr)
    if answer.returncode or not found:
        raise SlurmError(" ".join(answer.stderr.split()) or f"salloc ended with status {answer.returncode}")
    return found[1]
