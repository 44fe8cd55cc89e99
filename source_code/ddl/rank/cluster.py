"""Clusters of tf.distribute: which task a process is, where the others are, and which are missing.

``launch(..., cluster="multi_worker")`` starts processes as for Horovod. Each keeps its address in Horovod's rendezvous
server, waits for the others', and sets ``TF_CONFIG`` before the script runs; under stock horovodrun, too::

    multi_worker        rank k is worker k
    parameter_server    rank 0 is the chief (the coordinator), then the workers, then the servers

A script asks `read` which task it is, and calls `await_all` before it makes its strategy. Both also
work where ``TF_CONFIG`` was set by hand. Workers and parameter servers of a
``ParameterServerStrategy`` do nothing but `serve`.

TensorFlow's own servers listen on every interface, without authentication: use them in a network
that you trust.
"""

import json
import os
import socket
import time
from collections.abc import Mapping, Sequence

from ddl.launcher.roles import TYPES, Roles, task_name
from ddl.rank import rendezvous
from ddl.rank.tf_config import EXAMPLE, Cluster, ClusterError, host_and_port
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json

LOOK_EVERY_S = 0.1
CONNECT_S = 1.0
# A script that waits by itself says more than its launcher can: it goes first.
LAUNCHER_GRACE_S = 5.0
# A coordinator that is done takes its functions off the servers while it ends. One that goes on with other work is
# not waited for.
COORDINATOR_ENDS_S = 10.0


# ---------------------------------------------------------------- in a script


def read(environment: Mapping[str, str] = os.environ) -> Cluster:
    """Return the cluster that ``TF_CONFIG`` describes.

    Raises
    ------
    ClusterError
        If it is not set, is not JSON, describes a cluster that can't work, or gives this task a
        port that another program uses.
    """
    text = environment.get("TF_CONFIG")
    if not text:
        raise ClusterError(
            "TF_CONFIG is not set: start the script with launch(..., cluster="
            f'"multi_worker"), or set it in every process, as in {EXAMPLE}'
        )
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise ClusterError(
            f"TF_CONFIG is no JSON: {error.msg} at character {error.pos + 1} of {text!r}. It looks like this: {EXAMPLE}"
        ) from None
    try:
        spec, task = dict(config["cluster"]), dict(config["task"])
        unknown = sorted(set(spec) - set(TYPES))
        if unknown:
            raise ClusterError(
                f'TF_CONFIG: "cluster" has the type {unknown[0]!r}, which is not one of: {", ".join(TYPES)}'
            )
        for name, addresses in spec.items():
            if not isinstance(addresses, list):
                raise ClusterError(f'TF_CONFIG: "{name}" is {addresses!r}: a list of addresses is needed')
        cluster = Cluster(
            task["type"], task["index"], spec.get("worker", ()), spec.get("chief", ()), spec.get("ps", ())
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
    """Refuse a port that another process listens on; a server of this process may."""
    _, port = host_and_port(cluster.address, cluster.name)
    try:
        _socket(port).close()
    except OSError as error:
        import psutil

        connections = psutil.Process().net_connections("tcp")
        if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections):
            return
        raise ClusterError(
            f"TF_CONFIG: {cluster.name}, this task, cannot have port {port}: "
            f"{error.strerror}. End the program that uses it, or choose another "
            "port, the same in every task"
        ) from None


def _socket(port=0):
    """A TCP socket bound to `port` on all interfaces, as TensorFlow's server does it."""
    bound = socket.socket()
    # Until somebody listens, others with this option may bind, too: TensorFlow's server does.
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(("", port))
    except OSError:
        bound.close()
        raise
    return bound


def timeout_s() -> float:
    """How long tasks wait for each other: ``DDL_CLUSTER_TIMEOUT_S``, else 180."""
    return float(os.environ.get("DDL_CLUSTER_TIMEOUT_S") or 180)


def await_all(cluster: Cluster | None = None, seconds: float | None = None) -> Cluster:
    """Wait until every other task of the cluster (by default `read`'s) answers on its port.

    Call it before making the strategy, which would wait, too, but for ever and without saying for
    whom. The first task (the chief, or worker 0) goes ahead when all others answer, and the others
    when it does. Tasks that `serve` return at once.

    Raises
    ------
    ClusterError
        If a task does not answer within `seconds` (by default `timeout_s`); the message names all
        that don't.
    """
    cluster = cluster or read()
    seconds = timeout_s() if seconds is None else seconds
    if cluster.ps and not cluster.writes:
        return cluster
    absent = {task: address for task, address in cluster.tasks.items() if task != cluster.name}
    with _socket(host_and_port(cluster.address, cluster.name)[1]) as port:
        # TensorFlow's servers connect to the first task's, and fail when that connection closes. So
        # nothing listens on its port before its real server, and then all other ports can close.
        if not cluster.writes:
            port.listen(socket.SOMAXCONN)  # listening is enough: no connection is accepted
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


def answers(address: str) -> bool:
    """Whether anything accepts connections at ``host:port``."""
    try:
        socket.create_connection(host_and_port(address, "task"), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def serve(cluster: Cluster) -> None:
    """Do what the coordinator says, as a worker or a parameter server, until it is done.

    In a launched run, and under horovodrun, it returns when the coordinator has called `dismiss`, or its
    script has ended, and then its process, too, or at most ten seconds have passed: TensorFlow's end in the
    coordinator prints errors where the servers went first. Elsewhere it serves until it is killed.
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
    if not rendezvous.reachable():
        server.join()
    while not _dismissed():
        time.sleep(LOOK_EVERY_S)
    deadline = time.monotonic() + COORDINATOR_ENDS_S
    while any(answers(address) for address in cluster.chief) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)


def dismiss() -> None:
    """Let `serve` return in the other tasks; where tasks were started by hand, do nothing.

    `ddl.rank` calls it, too, when the coordinator's script has ended without an error.
    """
    if rendezvous.reachable():
        rendezvous.write("dismissed", "yes")


def _dismissed():
    try:
        return rendezvous.read("dismissed") is not None
    except OSError:  # the server ends with rank 0, the coordinator
        return True


# ---------------------------------------------------------------- in a launched run


def attempt() -> str:
    """Name this start of this run: a requeued job of Slurm starts again in the same folder."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


_reserved = []  # sockets that keep this process' port for its server until the process ends


def reserve() -> dict[str, str]:
    """Reserve a port for this process' server; return what its rank's record says of it.

    While this process lives nothing else is given the port, and TensorFlow can still bind it.
    """
    _reserved.append(_socket())
    host = os.environ.get("DDL_ADDRESS", "127.0.0.1")  # a task of Slurm's says which
    return {"address": f"{host}:{_reserved[-1].getsockname()[1]}", "attempt": attempt()}


def publish(rank: int, address: str) -> None:
    """Let the other ranks find this one's address."""
    rendezvous.write(f"address-{rank}", address)


def assemble(rank: int, roles: Roles, seconds: float | None = None) -> Cluster:
    """Wait until every rank has published its address; return the cluster as this rank sees it.

    Raises
    ------
    ClusterError
        If a rank does not within `seconds` (by default `timeout_s`); the message names all that don't.
    """
    names = [f"{task_name(*role)} (rank {other})" for other, role in enumerate(roles)]
    addresses = await_addresses(names, seconds)
    by_type = {
        kind: tuple(address for address, (type, _) in zip(addresses, roles, strict=True) if type == kind)
        for kind in TYPES
    }
    return Cluster(*roles[rank], by_type["worker"], by_type["chief"], by_type["ps"])


def await_addresses(names: Sequence[str], seconds: float | None = None) -> list[str]:
    """Wait until the first ranks, one for each of `names`, have published their addresses; return these.

    Raises
    ------
    ClusterError
        If a rank does not within `seconds` (by default `timeout_s`); the message names all that don't.
    """
    seconds = timeout_s() if seconds is None else seconds
    deadline = time.monotonic() + seconds
    addresses: dict[int, str] = {}
    while True:
        for rank in set(range(len(names))) - set(addresses):
            if address := rendezvous.read(f"address-{rank}"):
                addresses[rank] = address
        if len(addresses) == len(names):
            return [addresses[rank] for rank in range(len(names))]
        if time.monotonic() > deadline:
            absent = " and ".join(name for rank, name in enumerate(names) if rank not in addresses)
            raise ClusterError(
                f"{absent} did not start within {seconds:g} s. On a slow machine DDL_CLUSTER_TIMEOUT_S gives them more"
            )
        time.sleep(LOOK_EVERY_S)


def _recorded_address(folder, rank):
    """The address in a rank's record, for its supervisor; None before this start of the rank has written it."""
    record = read_json(folder.rank(rank)) or {}
    return record.get("address") if record.get("attempt") == attempt() else None


def first_absent(folder: RunFolder, roles: Roles, seconds: float | None = None) -> list[int]:
    """Wait until every rank has opened its port; return the ranks that did not in time.

    A task that waits for another one in tf.distribute waits for ever, and lets no other thread of
    its Python run: so the supervisor watches. Time counts from when the first port is open. (A
    script that makes no strategy opens none, and nobody waits.)
    """
    seconds = timeout_s() if seconds is None else seconds
    absent, deadline = list(range(len(roles))), None
    while absent:
        absent = [rank for rank in absent if not ((address := _recorded_address(folder, rank)) and answers(address))]
        if len(absent) < len(roles):
            deadline = deadline or time.monotonic() + seconds + LAUNCHER_GRACE_S
            if time.monotonic() > deadline:
                break
        time.sleep(LOOK_EVERY_S)
    return absent


def visible_devices(rank: int, local_rank: int, roles: Roles, devices: Sequence[str]) -> str:
    """Return ``CUDA_VISIBLE_DEVICES`` for a task: one of its host's `devices` for a worker, else none."""
    if not devices or roles[rank][0] != "worker":
        return ""
    before = sum(type == "worker" for type, _ in roles[rank - local_rank : rank])
    return devices[before % len(devices)]
