"""Where a run goes: this machine, hosts made on it, or (through a scheduler) a cluster's."""

import difflib
import os
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path

from ddl.launcher import sitefile, sitekey
from ddl.launcher.allocation import Allocation
from ddl.launcher.sitekey import SiteError
from ddl.records.machine import container_around, cores_of_host, gpu_names, usable_cores

__all__ = ["Site", "SiteError", "gpu_names", "usable_cores"]

MOST_HOSTS = 64  # made on one machine: each rank is a process that imports TensorFlow


@dataclass(frozen=True)
class Site:
    """One place to run in. The fields are the keys of a site file, the last three excepted.

    Parameters
    ----------
    scheduler : {"local", "slurm", "namespaces"}
        Who starts the processes: this machine, Slurm, or this machine as several hosts, each in a
        network namespace of its own (`ddl.rank.hosts`).
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
    rate_mbit : int
        Megabits a second between hosts made on this machine, in each direction; 0: no limit.
    origin : str
        Where these values come from, for people.
    inside : str
        The container that this process runs in already, and its ranks with it; empty outside,
        and where Slurm starts the ranks: it does so outside of this container.
    allocation : str
        The Slurm job that this process runs in already; empty outside.

    Raises
    ------
    SiteError
        For a value that can't be, or that another one rules out; the message says what can.
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
    rate_mbit: int = 0
    origin: str = ""
    inside: str = ""
    allocation: str = ""

    def __post_init__(self):
        for field in fields(self):
            value = sitekey.validated(field, getattr(self, field.name))
            object.__setattr__(self, field.name, value)
        if self.nodes > 1 and self.scheduler == "local":
            raise SiteError(
                f'nodes = {self.nodes} needs scheduler = "slurm" or "namespaces": '
                "without it all ranks are on this machine",
                "nodes",
            )
        if self.scheduler == "namespaces":
            self._refuse_in_namespaces()
        if self.controller == "mpi" and self.scheduler != "slurm":
            raise SiteError(
                'controller = "mpi" needs scheduler = "slurm", which starts the ranks; here "gloo" works', "controller"
            )
        if self.container == "docker" and self.scheduler == "slurm":
            raise SiteError(
                'container = "docker" needs scheduler = "local": Docker\'s daemon '
                'starts processes outside the job. With Slurm, "singularity" or "none" '
                "works",
                "container",
            )
        if self.container != "none" and not self.image:
            raise SiteError(f'container = "{self.container}" needs an image', "container")
        if "--gpus-per-task" in self.gpu_option:
            raise SiteError(
                f'gpu_option = "{self.gpu_option}" asks per task, which makes every '
                'rank use the first GPU: "--gres=gpu:{n}" or "--gpus-per-node={n}" '
                "works",
                "gpu_option",
            )
        limit_s = sitekey.seconds(self.time_limit)
        if 0 < limit_s <= self.time_limit_warning_s:  # a limit of 0 is none
            raise SiteError(
                f'time_limit = "{self.time_limit}" ({limit_s} s) ends before '
                f"time_limit_warning_s = {self.time_limit_warning_s} can warn of it: "
                "a run would only ever checkpoint",
                "time_limit",
            )

    def _refuse_in_namespaces(self):
        if not 2 <= self.nodes <= MOST_HOSTS:
            raise SiteError(
                f'nodes = {self.nodes}: scheduler = "namespaces" makes 2 to {MOST_HOSTS} hosts; "local" is for one',
                "nodes",
            )
        if self.container != "none":
            raise SiteError(
                f'container = "{self.container}" needs scheduler = "local" or "slurm": '
                "a container has a network of its own",
                "container",
            )
        if self.gpus_per_node:
            raise SiteError(
                f"gpus_per_node = {self.gpus_per_node}: GPUs of one machine talk past "
                "the network between the hosts made on it, so ranks run on cores: 0 "
                "works",
                "gpus_per_node",
            )

    # ------------------------------------------------------------ where it comes from

    @classmethod
    def here(cls, file=None):
        """Return the site to use: `file`, else the first that there is of those below.

        The file that ``DDL_SITE`` names; ``site.toml`` in the working folder, in the course's, in
        ``$XDG_CONFIG_HOME/ddl`` (``~/.config/ddl``); what `detect` finds. Inside a Slurm job the
        job's nodes take the place of the file's, and where they are this one node, its runs start
        on it directly.

        Parameters
        ----------
        file : str or Path, optional

        Returns
        -------
        Site

        Raises
        ------
        SiteError
            For a file that is not there or not right.
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
    def detect(cls):
        """Return the site that this process is on: a Slurm job, or a machine."""
        cores, gpus = usable_cores(), len(gpu_names())
        allocation = Allocation.here()
        what = f"with {gpus} GPU{'s' * (gpus > 1)}" if gpus else f"without GPUs, {cores} core{'s' * (cores > 1)} usable"
        site = cls(
            scheduler="slurm" if allocation else "local",
            cores_per_node=cores,
            gpus_per_node=gpus,
            origin="detected" if allocation else f"detected: a machine {what}",
        )
        return site._at(allocation, ": ")

    @classmethod
    def read(cls, path):
        """Return what a site file says, whatever job or container this process is in.

        Without ``cores_per_node`` and ``gpus_per_node``, a local site has what this machine has;
        each host made on it has a share of the cores, two at least.
        For Slurm one of the two has to be given, because a login node says nothing about the
        others. From GPUs alone follows one core for each: too few to feed them, but never more
        than a cluster grants, and the rest of a file can be tried before anyone has looked it up.

        Parameters
        ----------
        path : str or Path
            Flat TOML; its keys are the fields of this class, the last three excepted.

        Raises
        ------
        SiteError
            For a file that is not there, is no TOML, has an unknown key or a wrong value; the
            message begins with the file and the line, and says what is valid.
        """
        file = sitefile.SiteFile.read(path)
        values = dict(file.values)
        for key in values:
            if key not in KEYS:
                near = _near(key)
                raise SiteError(
                    f"{file.place(key)}: {key} is not a key of a site file"
                    f"{f'; did you mean {near}?' if near else '.'} "
                    f"The keys are: {', '.join(KEYS)}",
                    key,
                )
        try:
            sitekey.refuse_idle(values)
            if values.get("scheduler") == "namespaces":
                nodes = values.setdefault("nodes", 2)
                values.setdefault("cores_per_node", cores_of_host(nodes) if type(nodes) is int else 1)
            elif values.get("scheduler") != "slurm":
                values = {"cores_per_node": usable_cores(), "gpus_per_node": len(gpu_names()), **values}
            elif "cores_per_node" not in values:
                gpus = values.get("gpus_per_node", 0)
                if gpus == 0:
                    raise SiteError(
                        "cores_per_node is needed: how many cores one node gives to a "
                        "job (gpus_per_node, too, if it has GPUs)",
                        "scheduler",
                    )
                values["cores_per_node"] = gpus if type(gpus) is int and gpus > 0 else 1
            site = cls(**values, origin=str(path))
            if site.container == "singularity":
                image = os.path.join(file.path.absolute().parent, os.path.expanduser(site.image))
                site = replace(site, image=image)
            return site
        except SiteError as error:
            raise SiteError(f"{file.place(error.field)}: {error}", error.field) from None

    def _at(self, allocation, joint):
        """This site for a process that is where this one is: in a job of Slurm, in a container."""
        site = self
        if allocation:
            site = replace(self, allocation=allocation.job, origin=f"{self.origin}{joint}{allocation}")
        if allocation and self.scheduler == "slurm":
            site = site._within(allocation)
        return replace(site, inside="" if site.scheduler == "slurm" else container_around())

    def _within(self, allocation):
        """This site with the nodes of a job; without Slurm where they are the one we are on."""
        if allocation.around:
            return replace(
                self,
                scheduler="local",
                controller="gloo",
                nodes=1,
                cores_per_node=usable_cores(),
                gpus_per_node=len(gpu_names()),
            )
        gpus = allocation.gpus_per_node
        return replace(
            self,
            nodes=allocation.nodes,
            cores_per_node=allocation.cores_per_node or self.cores_per_node,
            gpus_per_node=self.gpus_per_node if gpus is None else gpus,
        )

    # ------------------------------------------------------------ what it holds

    @property
    def slots(self):
        """How many ranks one node runs without sharing a device: one per GPU, or one per core."""
        return self.gpus_per_node or self.cores_per_node

    def check(self, job):
        """Refuse a job that does not fit: see `nodes_for`."""
        self.nodes_for(job)

    def nodes_for(self, job):
        """Number of nodes for a job: what it asks for, else the fewest that hold it evenly.

        Hosts made on this machine are there to be used: by default all of them are.
        ``oversubscribe`` lets ranks share the devices of one node where they would not fit.

        Raises
        ------
        SiteError
            Naming the numbers of workers that fit.
        """
        if job.nodes is not None and job.nodes > self.nodes:
            raise SiteError(
                f"nodes={job.nodes} asked for, but this site has {self.nodes} ({self.origin or 'as described'})"
            )
        asked = self.nodes if self.scheduler == "namespaces" and not job.nodes else job.nodes
        allowed = range(1, self.nodes + 1) if asked is None else (asked,)
        for nodes in allowed:
            if job.workers % nodes == 0 and job.workers // nodes <= self.slots:
                return nodes
        if job.oversubscribe and 1 in allowed:
            return 1
        device = "GPU" if self.gpus_per_node else "core"
        have = f"{self.slots} {device}{'' if self.slots == 1 else 's'}"
        if allowed[-1] == 1:
            raise SiteError(
                f"{job.workers} workers asked for, but there {'is' if self.slots == 1 else 'are'} "
                f"{have} here: workers={self.slots} works. To share {device}s between ranks all "
                f"the same (slower than {self.slots}), pass oversubscribe=True (ddl run "
                "--oversubscribe)."
            )
        fitting = {nodes * ranks for nodes in allowed for ranks in range(1, self.slots + 1)}
        below = max((count for count in fitting if count < job.workers), default=None)
        above = min((count for count in fitting if count > job.workers), default=None)
        works = " or ".join(f"workers={count}" for count in (below, above) if count)
        on = f"{allowed[-1]} nodes" if asked else f"up to {allowed[-1]} nodes"
        raise SiteError(
            f"{job.workers} workers asked for, which cannot be shared out evenly over "
            f"{on} with {have} each: {works} works."
        )

    def one_task(self, job):
        """Whether one task holds all ranks, started by a horovodrun inside it."""
        return self.controller == "gloo" and self.nodes_for(job) == 1

    def ranks_per_node(self, job):
        """The most ranks that one node gets, those that only coordinate included."""
        return -(-job.processes // self.nodes_for(job))

    def threads_per_rank(self, job):
        """Threads for each rank: what the job asks for, else its share of its node's cores.

        In one task the cores are shared by the workers, who compute; a rank that is a task of its
        own has cores of its own, whatever it does.
        """
        ranks = job.workers if self.one_task(job) else self.ranks_per_node(job)
        return job.threads or max(1, self.cores_per_node // ranks)


KEYS = tuple(field.name for field in fields(Site))[:-3]


def _near(key):
    """Return the key of a site file that somebody may have meant; None where there is none."""

    def words(text):
        return {word.rstrip("s") for word in re.split(r"[-_\s]+", text.lower())}

    same = [known for known in KEYS if words(key) == words(known)]
    holding = [known for known in KEYS if words(key) <= words(known)]
    alike = difflib.get_close_matches(key.lower(), KEYS, 1)
    return next(iter(same + holding + alike), None)
