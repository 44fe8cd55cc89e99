"""Sites: the place where runs start, which is this machine, hosts simulated on it, or a Slurm cluster."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.job import sitefile
from ddl.job.sitefile import SiteError, key, keys, refuse_useless, seconds, shown, validated
from ddl.job.slurm import Allocation
from ddl.records.machine import container_around, cores_of_host, gpu_names, gpu_problem, usable_cores
from ddl.text import did_you_mean, plural

if TYPE_CHECKING:
    from ddl.job.job import Job

MOST_HOSTS = 64  # simulated on one machine: each rank is a process that imports TensorFlow

SLURM = ("scheduler", "slurm")
HOSTS = ("scheduler", "namespaces")
CONTAINER = ("container", "docker", "singularity")


@dataclass(frozen=True)
class Site:
    """One place to run in.

    Fields defined with `key` can be set in a site file; containers/sites/README.md explains them. `origin` is the
    source of their values. `allocation` is the Slurm job that this process is in, and `inside` the container that this
    process and its ranks are in (empty if Slurm starts the ranks, which it does outside the container).
    """

    scheduler: str = key("local", choices=("local", "slurm", "namespaces"))
    container: str = key("none", choices=("none", "docker", "singularity"))
    cores_per_node: int = key(1, least=1)
    gpus_per_node: int = key(0)
    python: str = key("")
    modules: tuple[str, ...] = key(())
    pass_environment: tuple[str, ...] = key(())

    partition: str = key("", needs=SLURM)
    account: str = key("", needs=SLURM)
    reservation: str = key("", needs=SLURM)
    time_limit: str = key("", needs=SLURM)
    time_limit_warning_s: int = key(120, least=1, needs=SLURM)
    nodes: int = key(1, least=1)
    controller: str = key("gloo", choices=("gloo", "mpi"))
    gpu_option: str = key("--gres=gpu:{n}", needs=SLURM)
    gpu_type: str = key("", needs=SLURM)
    scheduler_arguments: tuple[str, ...] = key((), needs=SLURM)
    network_interfaces: tuple[str, ...] = key((), needs=SLURM)

    rate_mbit: int = key(0, needs=HOSTS)

    image: str = key("", needs=CONTAINER)
    binds: tuple[str, ...] = key((), needs=CONTAINER)
    container_arguments: tuple[str, ...] = key((), needs=CONTAINER)

    origin: str = ""
    inside: str = ""
    allocation: str = ""

    def __post_init__(self) -> None:
        for name, field in KEYS.items():
            object.__setattr__(self, name, validated(field, getattr(self, name)))
        for name, problem in _contradictions(self):
            raise SiteError(f"{name} = {shown(getattr(self, name))}{problem}")

    @classmethod
    def here(cls, file: str | Path | None = None) -> "Site":
        """Return the site described by `file` or by the file that `sitefile.find` finds; without one, detect it.

        Inside a Slurm job, the job's nodes replace the file's; if this node is the only one, runs start on it directly.
        Raises SiteError for a missing or invalid file, SlurmError if the Slurm job is over.
        """
        if not (found := sitefile.find(file)):
            return cls.detect()
        path, why = found
        return replace(cls.read(path), origin=f"{path} ({why})")._at(Allocation.here())

    @classmethod
    def detect(cls) -> "Site":
        """Return the site that this process is on: a Slurm job or a machine."""
        cores, gpus, problem = usable_cores(), len(gpu_names()), gpu_problem()
        allocation = Allocation.here()
        what = f"with {plural(gpus, 'GPU')}" if gpus else f"without GPUs, {plural(cores, 'core')} usable"
        what += f" (nvidia-smi: {problem})" if problem else ""
        site = cls(
            scheduler="slurm" if allocation else "local",
            cores_per_node=cores,
            gpus_per_node=gpus,
            origin="detected" if allocation else f"detected: a machine {what}",
        )
        return site._at(allocation)

    @classmethod
    def read(cls, path: str | Path) -> "Site":
        """Return the site that a file describes, regardless of the job or container that this process is in.

        Raises SiteError with the file if it is missing or invalid.
        """
        values = sitefile.read(path)
        try:
            site = cls(**_with_defaults(values), origin=str(path))
        except SiteError as error:
            raise SiteError(f"{path}: {error}") from None
        if site.container == "singularity":
            site = replace(site, image=os.path.join(Path(path).absolute().parent, os.path.expanduser(site.image)))
        return site

    def _at(self, allocation: Allocation | None) -> "Site":
        """Return this site as seen from inside the current Slurm job and container."""
        known: dict[str, Any] = {}
        if allocation:
            known = {"allocation": allocation.job, "origin": f"{self.origin}, {allocation}"}
        if allocation and self.scheduler == "slurm":
            known |= {"nodes": allocation.nodes}
            if allocation.around:  # start ranks on this node without Slurm
                known |= {"scheduler": "local", "controller": "gloo"}
                known |= {"cores_per_node": usable_cores(), "gpus_per_node": len(gpu_names())}
            else:
                known["cores_per_node"] = allocation.cores_per_node or self.cores_per_node
                if allocation.gpus_per_node is not None:
                    known["gpus_per_node"] = allocation.gpus_per_node
        site = replace(self, **known)
        return replace(site, inside="" if site.scheduler == "slurm" else container_around())

    @property
    def slots(self) -> int:
        """How many ranks one node runs without sharing devices: one per GPU or, without GPUs, one per core."""
        return self.gpus_per_node or self.cores_per_node

    def nodes_for(self, job: "Job") -> int:
        """Return the number of nodes for a job: as requested or, by default, the fewest that hold it evenly.

        By default a job uses all hosts simulated on this machine. With ``oversubscribe``, ranks that would not fit
        share the devices of one node. A site's only GPU is shared in any case (`ddl.start.devices`). SiteError names
        the numbers of workers that fit.
        """
        if job.nodes is not None and job.nodes > self.nodes:
            origin = f" ({self.origin})" if self.origin else ""
            raise SiteError(f"nodes must be at most {self.nodes} on this site{origin}, got {job.nodes}")
        asked = self.nodes if self.scheduler == "namespaces" and not job.nodes else job.nodes
        allowed = range(1, self.nodes + 1) if asked is None else (asked,)
        for nodes in allowed:
            if job.workers % nodes == 0 and job.workers // nodes <= self.slots:
                return nodes
        only_gpu = self.gpus_per_node == self.nodes == 1 and job.workers <= self.cores_per_node
        if (job.oversubscribe or only_gpu) and 1 in allowed:
            return 1
        raise SiteError(_does_not_fit(job.workers, self, allowed))

    def one_task(self, job: "Job") -> bool:
        """Return whether one task holds all ranks, started by horovodrun inside it."""
        return self.controller == "gloo" and self.nodes_for(job) == 1

    @property
    def enters_container(self) -> bool:
        """Whether commands enter a container (not if this process already is in it)."""
        return self.container != "none" and not self.inside

    def ranks_per_node(self, job: "Job") -> int:
        """Return the most ranks on one node, including those that only coordinate."""
        return -(-job.ranks // self.nodes_for(job))

    def threads_per_rank(self, job: "Job") -> int:
        """Return the number of threads per rank: as requested or, by default, an equal share of the node's cores.

        Within one task only the workers count; otherwise each rank is a task with its own cores.
        """
        ranks = job.workers if self.one_task(job) else self.ranks_per_node(job)
        return job.threads or max(1, self.cores_per_node // ranks)


KEYS = keys(Site)


def _with_defaults(values: dict) -> dict:
    """Return a file's values, with this machine's cores and GPUs as defaults.

    A Slurm login node says nothing about the compute nodes. If a file states only GPUs, the default is one core each:
    too few to feed them, but never more than a cluster grants.
    """
    for name in values:
        if name not in KEYS:
            hint = did_you_mean(name.lower(), KEYS) or "."
            raise SiteError(f"unknown key {name}{hint} The keys are: {', '.join(KEYS)}")
    refuse_useless(values, KEYS)
    scheduler = values.get("scheduler")
    if scheduler == "namespaces":
        nodes = values.get("nodes", 2)
        return {"nodes": nodes, "cores_per_node": cores_of_host(nodes), **values}
    if scheduler != "slurm":
        return {"cores_per_node": usable_cores(), "gpus_per_node": len(gpu_names()), **values}
    if not (values.get("cores_per_node") or values.get("gpus_per_node")):
        need = "cores_per_node must be set to the number of cores that a job gets on one node"
        raise SiteError(f"{need}; with GPUs, also set gpus_per_node")
    return {"cores_per_node": values.get("gpus_per_node"), **values}


def _contradictions(site: Site) -> Iterator[tuple[str, str]]:
    """Yield fields whose values contradict others, with the end of a sentence about it."""
    if site.nodes > 1 and site.scheduler == "local":
        yield "nodes", ' needs scheduler = "slurm" or "namespaces"; otherwise all ranks are on this machine'
    if site.scheduler == "namespaces":
        if not 2 <= site.nodes <= MOST_HOSTS:
            yield "nodes", f': scheduler = "namespaces" simulates 2 to {MOST_HOSTS} hosts; use "local" for one'
        if site.container != "none":
            yield "container", ' needs scheduler = "local" or "slurm": a container has a separate network'
        if site.gpus_per_node:
            why = "GPUs of one machine bypass the network between simulated hosts, so ranks run on cores"
            yield "gpus_per_node", f' needs scheduler = "local" or "slurm": {why}'
    if site.controller == "mpi" and site.scheduler != "slurm":
        yield "controller", ' needs scheduler = "slurm", which starts the ranks; use "gloo" here'
    if site.container == "docker" and site.scheduler == "slurm":
        why = "Docker's daemon starts processes outside the job"
        yield "container", f' needs scheduler = "local": {why}. With Slurm, use "singularity" or "none"'
    if site.container != "none" and not site.image:
        yield "container", " needs an image"
    if any(re.match("--clusters?(=|$)|-M", word) for word in site.scheduler_arguments):
        yield ("scheduler_arguments", ": --clusters hides jobs from here, so log in to a host of that cluster instead")
    if "--gpus-per-task" in site.gpu_option or "{n}" not in site.gpu_option:
        yield "gpu_option", ' must ask for the {n} GPUs of a node, as "--gres=gpu:{n}" or "--gpus-per-node={n}" do'
    try:
        limit_s, warning_s = seconds(site.time_limit), site.time_limit_warning_s
    except ValueError:
        yield "time_limit", ": write minutes, hours:minutes:seconds or days-hours"
        return
    if 0 < limit_s <= warning_s:  # 0 means no limit
        why = f"it must exceed time_limit_warning_s = {warning_s}, or a run would only checkpoint"
        yield "time_limit", f" ({limit_s} s) is too short: {why}"


def _does_not_fit(workers: int, site: Site, allowed: Sequence[int]) -> str:
    """Return a refusal of this number of workers that names the closest numbers that fit."""
    device, most = "GPU" if site.gpus_per_node else "core", allowed[-1]
    slots = plural(site.slots, device)
    where = f"{slots} here" if most == 1 else f"{'up to ' * (len(allowed) > 1)}{most} nodes with {slots} each"
    fitting = {nodes * ranks for nodes in allowed for ranks in range(1, site.slots + 1)}
    below = max((count for count in fitting if count < workers), default=None)
    above = min((count for count in fitting if count > workers), default=None)
    works = " or ".join(f"workers={count}" for count in (below, above) if count)
    share = f" With oversubscribe=True (ddl run --oversubscribe), ranks share {device}s, which is slower."
    refusal = f"{workers} workers asked for, which do not divide evenly over {where}: {works} works."
    return refusal + share * (1 in allowed)
