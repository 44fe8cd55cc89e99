"""Where a run goes: this machine, hosts made on it, or (through a scheduler) a cluster's."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.launcher import sitefile
from ddl.launcher.sitefile import SiteError, key, keys, needed, seconds, shown, validated
from ddl.launcher.slurm import Allocation
from ddl.records.machine import container_around, cores_of_host, gpu_names, usable_cores
from ddl.words import did_you_mean, plural

if TYPE_CHECKING:
    from ddl.launcher.job import Job

MOST_HOSTS = 64  # made on one machine: each rank is a process that imports TensorFlow


SLURM = ("scheduler", "slurm")
HOSTS = ("scheduler", "namespaces")
CONTAINER = ("container", "docker", "singularity")
WORD = (r"\S+", "one word")
OPTION = (r"-[^\s=]*=.*|\S+", "one word, or --option=text: an option and its value are two items")
TIME = (
    r"(\d+-\d+|\d+)(:\d+){0,2}",
    "a time as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours, "
    "days-hours:minutes or days-hours:minutes:seconds",
)
GPU_OPTION = (
    r"-[^\s{}]*\{n\}[^\s{}]*",
    'one option with {n} where the number of GPUs goes, such as "--gres=gpu:{n}" or "--gpus-per-node={n}"',
)
GPU_TYPE = (r"[^\s:{}]+", 'a type as Slurm names it, such as "a100"')
BIND = (
    r"/[^:,$]*(:/[^:,$]*(:(ro|rw))?)?",
    'absolute paths without variables: "/host", "/host:/inside" or "/host:/inside:ro"',
)
VARIABLE = (r"[A-Za-z_][A-Za-z0-9_]*", "the variable's name; its value stays out")
INTERFACE = (r"[^\s,]+", 'one interface, such as "ib0"')


@dataclass(frozen=True)
class Site:
    """One place to run in.

    Fields that are a `key` are those of a site file: containers/sites/README.md says what each means. `origin` says
    where their values come from; `allocation` is the Slurm job that this process runs in already, `inside` the
    container that it and its ranks are in already (empty where Slurm starts the ranks: it does so outside of it).
    """

    scheduler: str = key("local", choices=("local", "slurm", "namespaces"))
    container: str = key("none", choices=("none", "docker", "singularity"))
    cores_per_node: int = key(1, least=1)
    gpus_per_node: int = key(0)
    python: str = key("")
    modules: tuple[str, ...] = key((), form=WORD)
    pass_environment: tuple[str, ...] = key((), form=VARIABLE)

    partition: str = key("", form=WORD, needs=SLURM)
    account: str = key("", form=WORD, needs=SLURM)
    reservation: str = key("", form=WORD, needs=SLURM)
    time_limit: str = key("", form=TIME, needs=SLURM)
    time_limit_warning_s: int = key(120, least=1, needs=SLURM)
    nodes: int = key(1, least=1)
    controller: str = key("gloo", choices=("gloo", "mpi"))
    gpu_option: str = key("--gres=gpu:{n}", form=GPU_OPTION, needs=SLURM)
    gpu_type: str = key("", form=GPU_TYPE, needs=SLURM)
    scheduler_arguments: tuple[str, ...] = key((), form=OPTION, needs=SLURM)
    network_interfaces: tuple[str, ...] = key((), form=INTERFACE, needs=SLURM)

    rate_mbit: int = key(0, needs=HOSTS)

    image: str = key("", needs=CONTAINER)
    binds: tuple[str, ...] = key((), form=BIND, needs=CONTAINER)
    container_arguments: tuple[str, ...] = key((), form=OPTION, needs=CONTAINER)

    origin: str = ""
    inside: str = ""
    allocation: str = ""

    def __post_init__(self) -> None:
        for name, field in KEYS.items():
            object.__setattr__(self, name, validated(field, getattr(self, name)))
        for name, problem in _contradictions(self):
            raise SiteError(f"{name} = {shown(getattr(self, name))}{problem}", name)

    # ------------------------------------------------------------ where it comes from

    @classmethod
    def here(cls, file: str | Path | None = None) -> "Site":
        """Return the site of a file: `file`, else the first that `sitefile.find` finds, else `detect`'s.

        Inside a Slurm job the job's nodes replace the file's; where they are this one node, runs start on it directly.
        SiteError for a file that is not there or not right.
        """
        if file:
            path, why = Path(file).expanduser().absolute(), "as asked for"
        elif found := sitefile.find():
            path, why = found
        else:
            return cls.detect()
        site = replace(cls.read(path), origin=f"{path} ({why})")
        return site._at(Allocation.here(), ", ")

    @classmethod
    def detect(cls) -> "Site":
        """Return the site that this process is on: a Slurm job, or a machine."""
        cores, gpus = usable_cores(), len(gpu_names())
        allocation = Allocation.here()
        what = f"with {plural(gpus, 'GPU')}" if gpus else f"without GPUs, {plural(cores, 'core')} usable"
        site = cls(
            scheduler="slurm" if allocation else "local",
            cores_per_node=cores,
            gpus_per_node=gpus,
            origin="detected" if allocation else f"detected: a machine {what}",
        )
        return site._at(allocation, ": ")

    @classmethod
    def read(cls, path: str | Path) -> "Site":
        """Return what a site file says, whatever job or container this process is in.

        SiteError, with the file and the line, if it is not there, not TOML, has an unknown key or a wrong value.
        """
        file = sitefile.SiteFile.read(path)
        try:
            site = cls(**_with_defaults(file.values), origin=str(path))
        except SiteError as error:
            raise SiteError(f"{file.location(error.field)}: {error}", error.field) from None
        if site.container == "singularity":
            folder, image = file.path.absolute().parent, os.path.expanduser(site.image)
            site = replace(site, image=os.path.join(folder, image))
        return site

    def _at(self, allocation: Allocation | None, joint: str) -> "Site":
        """This site for a process that is where this one is: in a job of Slurm, in a container."""
        known: dict[str, Any] = {}
        if allocation:
            known = {"allocation": allocation.job, "origin": f"{self.origin}{joint}{allocation}"}
        if allocation and self.scheduler == "slurm":
            known |= {"nodes": allocation.nodes}
            if allocation.around:  # the one node that we are on: without Slurm
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
        """Number of ranks that one node runs without sharing a device: one per GPU, or one per core."""
        return self.gpus_per_node or self.cores_per_node

    def nodes_for(self, job: "Job") -> int:
        """Number of nodes for a job: what it asks for, else the fewest that hold it evenly.

        By default a job uses all hosts made on this machine. ``oversubscribe`` lets ranks share the devices of one node
        where they would not fit. SiteError names the numbers of workers that fit.
        """
        if job.nodes is not None and job.nodes > self.nodes:
            origin = self.origin or "as described"
            raise SiteError(f"nodes={job.nodes} asked for, but this site has {self.nodes} ({origin})")
        asked = self.nodes if self.scheduler == "namespaces" and not job.nodes else job.nodes
        allowed = range(1, self.nodes + 1) if asked is None else (asked,)
        for nodes in allowed:
            if job.workers % nodes == 0 and job.workers // nodes <= self.slots:
                return nodes
        if job.oversubscribe and 1 in allowed:
            return 1
        raise SiteError(_does_not_fit(job.workers, self, allowed))

    def one_task(self, job: "Job") -> bool:
        """Whether one task holds all ranks, started by a horovodrun inside it."""
        return self.controller == "gloo" and self.nodes_for(job) == 1

    @property
    def enters_container(self) -> bool:
        """Whether commands enter a container: a site may have none, or this process be in it already."""
        return self.container != "none" and not self.inside

    @property
    def takes_templates(self) -> bool:
        """Whether ranks start on this machine as this process would, and so from a template (`ddl.launcher.warm`)."""
        local = self.scheduler == "local" and not self.enters_container
        return local and self.controller == "gloo" and not self.python

    def ranks_per_node(self, job: "Job") -> int:
        """The most ranks that one node gets, those that only coordinate included."""
        return -(-job.processes // self.nodes_for(job))

    def threads_per_rank(self, job: "Job") -> int:
        """Threads for each rank: what the job asks for, else its share of its node's cores.

        In one task only the workers share the cores; a rank that is a task of its own has its own.
        """
        ranks = job.workers if self.one_task(job) else self.ranks_per_node(job)
        return job.threads or max(1, self.cores_per_node // ranks)


KEYS = keys(Site)


def _with_defaults(values: dict) -> dict:
    """The values of a file with what this machine says about cores and GPUs where the file does not.

    A login node of Slurm says nothing about other nodes. GPUs alone imply one core for each: too few to feed them, but
    never more than a cluster grants.
    """
    for name in values:
        if name not in KEYS:
            longer = [f": did you mean {key!r}?" for key in KEYS if name.lower() in key]
            hint = did_you_mean(name.lower(), KEYS) or next(iter(longer), ".")
            raise SiteError(f"{name} is not a key of a site file{hint} The keys are: {', '.join(KEYS)}", name)
    values = {name: validated(KEYS[name], value) for name, value in values.items()}
    for name in values:
        if problem := needed(KEYS[name], values, KEYS):
            raise SiteError(problem, name)
    scheduler = values.get("scheduler")
    if scheduler == "namespaces":
        nodes = values.get("nodes", 2)
        return {"nodes": nodes, "cores_per_node": cores_of_host(nodes), **values}
    if scheduler != "slurm":
        return {"cores_per_node": usable_cores(), "gpus_per_node": len(gpu_names()), **values}
    if not (values.get("cores_per_node") or values.get("gpus_per_node")):
        need = "cores_per_node is needed: how many cores one node gives to a job"
        raise SiteError(f"{need} (gpus_per_node, too, if it has GPUs)", "scheduler")
    return {"cores_per_node": values.get("gpus_per_node"), **values}


def _contradictions(site: Site) -> Iterator[tuple[str, str]]:
    """Yield a field and what is wrong with its value, given those of other fields."""
    if site.nodes > 1 and site.scheduler == "local":
        yield "nodes", ' needs scheduler = "slurm" or "namespaces": without it all ranks are on this machine'
    if site.scheduler == "namespaces":
        if not 2 <= site.nodes <= MOST_HOSTS:
            yield "nodes", f': scheduler = "namespaces" makes 2 to {MOST_HOSTS} hosts; "local" is for one'
        if site.container != "none":
            yield "container", ' needs scheduler = "local" or "slurm": a container has a network of its own'
        if site.gpus_per_node:
            why = "GPUs of one machine talk past the network between the hosts made on it, so ranks run on cores"
            yield "gpus_per_node", f": {why}: 0 works"
    if site.controller == "mpi" and site.scheduler != "slurm":
        yield "controller", ' needs scheduler = "slurm", which starts the ranks; here "gloo" works'
    if site.container == "docker" and site.scheduler == "slurm":
        why = "Docker's daemon starts processes outside the job"
        yield "container", f' needs scheduler = "local": {why}. With Slurm, "singularity" or "none" works'
    if site.container != "none" and not site.image:
        yield "container", " needs an image"
    if "--gpus-per-task" in site.gpu_option:
        works = '"--gres=gpu:{n}" or "--gpus-per-node={n}" works'
        yield "gpu_option", f" asks per task, which makes every rank use the first GPU: {works}"
    limit_s, warning_s = seconds(site.time_limit), site.time_limit_warning_s
    if 0 < limit_s <= warning_s:  # a limit of 0 is none
        why = f"ends before time_limit_warning_s = {warning_s} can warn of it: a run would only ever checkpoint"
        yield "time_limit", f" ({limit_s} s) {why}"


def _does_not_fit(workers: int, site: Site, allowed: Sequence[int]) -> str:
    """Say that so many workers cannot be shared out over the allowed numbers of nodes, and how many can."""
    device, most = "GPU" if site.gpus_per_node else "core", allowed[-1]
    slots = plural(site.slots, device)
    where = f"{slots} here" if most == 1 else f"{'up to ' * (len(allowed) > 1)}{most} nodes with {slots} each"
    fitting = {nodes * ranks for nodes in allowed for ranks in range(1, site.slots + 1)}
    below = max((count for count in fitting if count < workers), default=None)
    above = min((count for count in fitting if count > workers), default=None)
    works = " or ".join(f"workers={count}" for count in (below, above) if count)
    share = f" oversubscribe=True (ddl run --oversubscribe) shares {device}s between ranks, which is slower."
    refusal = f"{workers} workers asked for, which cannot be shared out evenly over {where}: {works} works."
    return refusal + share * (1 in allowed)
