"""Clusters of tf.distribute: which task a process is, where the others are, and who is missing.

``launch(..., cluster="multi_worker")`` starts processes as for Horovod. Each says its address in
its rank's file, waits for the others, and sets ``TF_CONFIG`` before the script runs::

    multi_worker        rank k is worker k
    parameter_server    rank 0 is the chief (the coordinator), then the workers, then the servers

A script asks `read` which task it is, and waits with `await_all` before it makes its strategy. Both
work as well where somebody has set ``TF_CONFIG`` by hand. `serve` is the whole life of a worker and
of a parameter server under ``ParameterServerStrategy``.

TensorFlow's own servers listen on every interface of the host and ask nobody who they are: use them
in a network that you trust.
"""

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

__all__ = [
    "CLUSTERS",
    "Cluster",
    "ClusterError",
    "assemble",
    "attempt",
    "await_all",
    "dismiss",
    "first_absent",
    "read",
    "reserve",
    "role_of",
    "roles",
    "serve",
    "timeout_s",
    "visible_devices",
]

CLUSTERS = ("horovod", "multi_worker", "parameter_server")
TYPES = ("chief", "worker", "ps")
LOOK_EVERY_S = 0.1
CONNECT_S = 1.0
# A script that waits by itself says more than its launcher can: it goes first.
LAUNCHER_GRACE_S = 5.0
EXAMPLE = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'


class ClusterError(ValueError):
    """``TF_CONFIG`` is wrong, or a task of the cluster is missing."""


@dataclass(frozen=True)
class Cluster:
    """A cluster as one of its tasks sees it.

    Parameters
    ----------
    type : {"chief", "worker", "ps"}
        What this process is.
    index : int
        Which of its type.
    workers, chief, ps : tuple of str
        Addresses, ``host:port``, of the tasks of each type; at most one chief.

    Raises
    ------
    ClusterError
        For a cluster that can't work; the message says why, and what to do.
    """

    type: str
    index: int
    workers: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()

    def __post_init__(self):
        for name in ("workers", "chief", "ps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.type not in TYPES:
            raise ClusterError(f"TF_CONFIG: the task's type {self.type!r} is not one of: {', '.join(TYPES)}")
        there = self.spec.get(self.type, [])
        if type(self.index) is not int or not 0 <= self.index < len(there):
            have = f"{len(there)} task{'s' * (len(there) != 1)} of that type"
            valid = (
                f": an index from 0 to {len(there) - 1} works" if there else f': give "cluster" a list "{self.type}"'
            )
            raise ClusterError(
                f"TF_CONFIG: the task's type is {self.type!r} and its index "
                f"{self.index!r}, but the cluster has {have}{valid}"
            )
        if not self.workers:
            raise ClusterError('TF_CONFIG: the cluster has no workers: give "cluster" a list "worker" of addresses')
        if len(self.chief) > 1:
            raise ClusterError(f"TF_CONFIG: the cluster has {len(self.chief)} chiefs: one works")
        if self.ps and not self.chief:
            raise ClusterError(
                'TF_CONFIG: the cluster has parameter servers ("ps") and no chief, '
                'who would coordinate them: give "cluster" a list "chief" with one '
                "address, the same in every task"
            )
        addresses = list(self.tasks.values())
        for task, address in self.tasks.items():
            _host_and_port(address, task)
            if addresses.count(address) > 1:
                raise ClusterError(
                    f"TF_CONFIG: {task} has the address {address}, which another task has too: every task needs its own"
                )

    @property
    def spec(self):
        """Addresses by type, as ``tf.train.ClusterSpec`` takes them."""
        listed = {"chief": self.chief, "worker": self.workers, "ps": self.ps}
        return {name: list(addresses) for name, addresses in listed.items() if addresses}

    @property
    def tasks(self):
        """Addresses by the task's name ("chief", "worker 1"), in the order of ranks."""
        return {
            task_name(name, index): address
            for name, addresses in self.spec.items()
            for index, address in enumerate(addresses)
        }

    @property
    def name(self):
        """What this task is called: "chief", "worker 1", "ps 0"."""
        return task_name(self.type, self.index)

    @property
    def address(self):
        """This task's own address."""
        return self.tasks[self.name]

    @property
    def writes(self):
        """Whether this task writes the records: the chief, or worker 0 where there is none."""
        return self.index == 0 and self.type == ("chief" if self.chief else "worker")

    @property
    def local_rank(self):
        """This worker's number among the workers of its host; 0 for the other tasks."""
        hosts = [address.rpartition(":")[0] for address in self.workers]
        return hosts[: self.index].count(hosts[self.index]) if self.type == "worker" else 0

    @property
    def tf_config(self):
        """The text of ``TF_CONFIG`` for this task."""
        return json.dumps({"cluster": self.spec, "task": {"type": self.type, "index": self.index}})


def task_name(type, index):
    """Name a task: there is one chief, and the others are counted."""
    return type if type == "chief" else f"{type} {index}"


def _host_and_port(address, task):
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ClusterError(
            f"TF_CONFIG: {task} has the address {address!r}: host:port is needed, for example 10.0.0.7:2222"
        )
    return host.strip("[]"), int(port)


# ---------------------------------------------------------------- in a script


def read(environment=os.environ):
    """Return the cluster that ``TF_CONFIG`` describes.

    Parameters
    ----------
    environment : mapping

    Returns
    -------
    Cluster

    Raises
    ------
    ClusterError
        If it is not set, is no JSON, describes a cluster that can't work, or gives this task a
        port that another program uses.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        raise ClusterError(
            "TF_CONFIG is not set: start the script with launch(..., cluster="
            f'"multi_worker"), or set it in every process, as in {EXAMPLE}'
        )
    try:
        said = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterError(
            f"TF_CONFIG is no JSON: {error.msg} at character {error.pos + 1} of {text!r}. It looks like this: {EXAMPLE}"
        ) from None
    try:
        listed, task = dict(said["cluster"]), dict(said["task"])
        unknown = sorted(set(listed) - set(TYPES))
        if unknown:
            raise ClusterError(
                f'TF_CONFIG: "cluster" has the type {unknown[0]!r}, which is not one of: {", ".join(TYPES)}'
            )
        for name, addresses in listed.items():
            if not isinstance(addresses, list):
                raise ClusterError(f'TF_CONFIG: "{name}" is {addresses!r}: a list of addresses is needed')
        cluster = Cluster(
            task["type"], task["index"], listed.get("worker", ()), listed.get("chief", ()), listed.get("ps", ())
        )
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, ClusterError):
            raise
        raise ClusterError(
            'TF_CONFIG needs "cluster" (lists of addresses by type) and "task" '
            f"(type and index), as in {EXAMPLE}; it is {text!r}"
        ) from None
    _check_own_port(cluster)
    return cluster


def _check_own_port(cluster):
    """Refuse a port that another process listens on; this one's own server may, from before."""
    _, port = _host_and_port(cluster.address, cluster.name)
    try:
        _socket(port).close()
    except OSError as error:
        import psutil

        own = psutil.Process().net_connections("tcp")
        if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in own):
            return
        raise ClusterError(
            f"TF_CONFIG: {cluster.name}, this task, cannot have port {port}: "
            f"{error.strerror}. End the program that uses it, or choose another "
            "port, the same in every task"
        ) from None


def _socket(port=0):
    """A TCP socket bound to `port` on all interfaces, as TensorFlow's server does it."""
    bound = socket.socket()
    # While nobody listens, others that say the same may bind as well: TensorFlow's server does.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound


def timeout_s():
    """How long tasks wait for each other, in seconds: ``DDL_CLUSTER_TIMEOUT_S``, else 180."""
    return float(os.environ.get("DDL_CLUSTER_TIMEOUT_S") or 180)


def await_all(cluster=None, seconds=None):
    """Wait until every other task of the cluster answers on its port.

    Call it before making the strategy, which would wait too, but without end and without saying
    for whom. The first task (the chief, or worker 0) goes ahead when all others answer, and the
    others when it does. Those that `serve` wait for nobody, and return at once.

    Parameters
    ----------
    cluster : Cluster, optional
        By default what `read` returns.
    seconds : float, optional
        By default `timeout_s`.

    Returns
    -------
    Cluster

    Raises
    ------
    ClusterError
        If a task does not answer in time; the message names all that don't.
    """
    cluster = cluster or read()
    seconds = timeout_s() if seconds is None else seconds
    if cluster.ps and not cluster.writes:
        return cluster
    absent = {task: address for task, address in cluster.tasks.items() if task != cluster.name}
    with _socket(_host_and_port(cluster.address, cluster.name)[1]) as door:
        # TensorFlow's servers call the first task's, and take it ill when it closes. So there is
        # nothing at its port before its real server, and when that is there all doors can close.
        if not cluster.writes:
            door.listen(socket.SOMAXCONN)  # being there is enough: nobody is let in
        deadline = time.monotonic() + seconds
        while True:
            absent = {task: address for task, address in absent.items() if not answers(address)}
            if not absent:
                return cluster
            if time.monotonic() > deadline:
                who = " and ".join(f"{task} at {address}" for task, address in absent.items())
                raise ClusterError(
                    f"{cluster.name} waited {seconds:g} s for {who}: nobody answers there (the "
                    "first task answers when all others do). Was it started, is the address right "
                    "in every task's TF_CONFIG, and does a firewall let it through?"
                )
            time.sleep(LOOK_EVERY_S)


def answers(address):
    """Whether anything accepts connections at ``host:port``."""
    try:
        socket.create_connection(_host_and_port(address, "task"), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def serve(cluster):
    """Do what the coordinator says until it is done: all that a worker or parameter server does.

    In a launched run it returns when the coordinator has called `dismiss`, or its script has come
    to its end. Elsewhere nobody can say so, and it serves until it is ended.

    Parameters
    ----------
    cluster : Cluster
        Of a task of the type "worker" or "ps".
    """
    import tensorflow as tf

    if cluster.type == "chief":
        raise ClusterError("the chief coordinates: serve() is for all the others")
    # A step waits inside the server for other steps, one thread each: with fewer it hangs.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=len(cluster.workers) + 1)
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster.spec),
        job_name=cluster.type,
        task_index=cluster.index,
        protocol="grpc",
        config=config,
    )
    folder = _folder()
    if not folder:
        server.join()
    while (read_json(folder.dismissed) or {}).get("attempt") != attempt():
        os.listdir(folder.path)  # a shared file system remembers that a file was not there
        time.sleep(LOOK_EVERY_S)


def dismiss():
    """Let the tasks in `serve` go: the coordinator is done. Outside a launched run it does nothing.

    `ddl.rank` calls it, too, when the coordinator's script has ended without an error.
    """
    if folder := _folder():
        folder.write_json(folder.dismissed, {"attempt": attempt()})


def _folder():
    path = os.environ.get("DDL_RUN_DIR")
    return RunFolder(Path(path)) if path else None


# ---------------------------------------------------------------- in a launched run


def roles(cluster, workers, parameter_servers=0):
    """Say which task each rank is.

    Parameters
    ----------
    cluster : {"horovod", "multi_worker", "parameter_server"}
    workers, parameter_servers : int

    Returns
    -------
    tuple of (str, int)
        Type and index of each rank, in order; empty for Horovod, whose ranks are all alike.
    """
    them = tuple(("worker", index) for index in range(workers))
    if cluster == "parameter_server":
        return (("chief", 0), *them, *(("ps", index) for index in range(parameter_servers)))
    return them if cluster == "multi_worker" else ()


def role_of(job, rank):
    """Name the task that a rank of a run is: "worker 1"; empty for Horovod.

    Parameters
    ----------
    job : dict
        The run's ``job.json``.
    rank : int
    """
    them = roles(job.get("cluster"), job.get("workers", 0), job.get("parameter_servers", 0))
    return task_name(*them[rank]) if rank < len(them) else ""


def attempt():
    """Name this start of this run: a requeued job of Slurm has the same folder, but starts anew."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


_reserved = []  # sockets that keep this process' port for its server until the process ends


def reserve():
    """Reserve a port for this process' server; return what its rank's file says of it.

    Nothing else is given the port while this process lives, and TensorFlow can still have it.
    """
    _reserved.append(_socket())
    host = os.environ.get("DDL_ADDRESS", "127.0.0.1")  # a task of Slurm's says which
    return {"address": f"{host}:{_reserved[-1].getsockname()[1]}", "attempt": attempt()}


def assemble(folder, rank, them, seconds=None):
    """Wait until every rank has said where it is.

    Parameters
    ----------
    folder : RunFolder
    rank : int
        This process'.
    them : tuple of (str, int)
        The `roles`.
    seconds : float, optional
        By default `timeout_s`.

    Returns
    -------
    Cluster
        As this rank sees it.

    Raises
    ------
    ClusterError
        If a rank says nothing in time; the message names all that don't.
    """
    seconds = timeout_s() if seconds is None else seconds
    deadline = time.monotonic() + seconds
    while True:
        addresses = [_address(folder, other) for other in range(len(them))]
        absent = [_who(other, them) for other, address in enumerate(addresses) if not address]
        if not absent:
            break
        if time.monotonic() > deadline:
            raise ClusterError(
                f"{' and '.join(absent)} did not start within {seconds:g} s. On a "
                "slow machine DDL_CLUSTER_TIMEOUT_S gives them more; ranks on other "
                f"nodes have to share the folder {folder.path}"
            )
        os.listdir(folder.path)  # a shared file system remembers that a file was not there
        time.sleep(LOOK_EVERY_S)
    listed = {
        kind: tuple(address for address, (type, _) in zip(addresses, them, strict=True) if type == kind)
        for kind in TYPES
    }
    return Cluster(*them[rank], listed["worker"], listed["chief"], listed["ps"])


def _address(folder, rank):
    said = read_json(folder.rank(rank)) or {}
    return said.get("address") if said.get("attempt") == attempt() else None


def _who(rank, them):
    return f"{task_name(*them[rank])} (rank {rank})"


def first_absent(folder, them, seconds=None):
    """Wait until every rank has opened its port; return those that did not in time.

    A task that waits for another one in tf.distribute does so without end, and lets no other
    thread of its Python run: so a run's launcher watches. Time counts from when the first one is
    there. (A script that makes no strategy opens no port, and nobody waits.)

    Returns
    -------
    list of int
        Ranks; empty when all were there.
    """
    seconds = timeout_s() if seconds is None else seconds
    absent, deadline = list(range(len(them))), None
    while absent:
        absent = [rank for rank in absent if not ((address := _address(folder, rank)) and answers(address))]
        if len(absent) < len(them):
            deadline = deadline or time.monotonic() + seconds + LAUNCHER_GRACE_S
            if time.monotonic() > deadline:
                break
        time.sleep(LOOK_EVERY_S)
    return absent


def visible_devices(rank, local_rank, them, devices):
    """Which GPUs a task may see: a worker one of its own, those that only coordinate none.

    Parameters
    ----------
    rank, local_rank : int
        Among all ranks, and among those of this host.
    them : tuple of (str, int)
        The `roles`.
    devices : list of str
        This host's GPUs, as ``CUDA_VISIBLE_DEVICES`` names them.

    Returns
    -------
    str
        The value of ``CUDA_VISIBLE_DEVICES``.
    """
    if not devices or them[rank][0] != "worker":
        return ""
    before = sum(type == "worker" for type, _ in them[rank - local_rank : rank])
    return devices[before % len(devices)]
