"""Clusters of tf.distribute and PyTorch: each process's task, its address, and which tasks are missing.

``launch(..., cluster="multi_worker")`` starts processes as for Horovod. Each publishes its address in Horovod's
rendezvous server, waits for the other addresses, and sets ``TF_CONFIG`` before the script runs. This works under stock
horovodrun too. The tasks are::

    multi_worker        rank k is worker k
    parameter_server    rank 0 is the chief (the coordinator), then come the workers, then the servers

A script calls `read` to learn its task, and `await_all` before it makes its strategy. Workers and parameter servers of
a ``ParameterServerStrategy`` only call `serve`. TensorFlow's servers listen on every interface without authentication:
use them only in a network that you trust.
"""

import json
import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ddl.errors import CourseError
from ddl.job.tf_cluster_roles import Roles, task_name
from ddl.job.timeouts import cluster_timeout_s
from ddl.records.network import interface_of
from ddl.start import rendezvous

LOOK_EVERY_S = 0.1
CONNECT_S = 1.0
# A coordinator that ends removes its functions from the servers, and TensorFlow prints errors if they ended first. A
# coordinator that does other work afterward is not waited for.
COORDINATOR_ENDS_S = 10.0
TORCHRUN = {  # its variables, and Horovod's with the same value
    "RANK": "HOROVOD_RANK",
    "WORLD_SIZE": "HOROVOD_SIZE",
    "LOCAL_RANK": "HOROVOD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "HOROVOD_LOCAL_SIZE",
    "GROUP_RANK": "HOROVOD_CROSS_RANK",
}


class ClusterError(CourseError, ValueError):
    """``TF_CONFIG`` is wrong, or a task of the cluster is missing."""


@dataclass(frozen=True)
class Cluster:
    """A cluster as seen by one of its tasks, which has a type ("chief", "worker" or "ps") and an index.

    `workers`, `chief` and `ps` are addresses, ``host:port``; there is at most one chief.
    """

    type: str
    index: int
    workers: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()

    @property
    def spec(self) -> dict[str, list[str]]:
        """Addresses by type, for ``tf.train.ClusterSpec``."""
        by_type = {"chief": self.chief, "worker": self.workers, "ps": self.ps}
        return {name: list(addresses) for name, addresses in by_type.items() if addresses}

    @property
    def tasks(self) -> dict[str, str]:
        """Addresses by task name ("chief", "worker 1"), in the order of ranks."""
        return {
            task_name(name, index): address
            for name, addresses in self.spec.items()
            for index, address in enumerate(addresses)
        }

    @property
    def name(self) -> str:
        """This task's name: "chief", "worker 1", "ps 0"."""
        return task_name(self.type, self.index)

    @property
    def writes(self) -> bool:
        """Whether this task writes the records: the chief, or worker 0 if there is no chief."""
        return self.index == 0 and self.type == ("chief" if self.chief else "worker")

    @property
    def tf_config(self) -> str:
        """The text of ``TF_CONFIG`` for this task."""
        return json.dumps({"cluster": self.spec, "task": {"type": self.type, "index": self.index}})


# ---------------------------------------------------------------- in a script


def read(environment: Mapping[str, str] = os.environ) -> Cluster:
    """Return the cluster that ``TF_CONFIG`` describes; ClusterError if it describes none."""
    text = environment.get("TF_CONFIG")
    if not text:
        raise ClusterError('TF_CONFIG is not set: start the script with launch(..., cluster="multi_worker")')
    try:
        config = json.loads(text)
        spec, task = dict(config["cluster"]), dict(config["task"])
        return Cluster(task["type"], task["index"], *(tuple(spec.get(name, ())) for name in ("worker", "chief", "ps")))
    except (KeyError, TypeError, ValueError) as error:
        raise ClusterError(f"TF_CONFIG is not valid ({type(error).__name__}: {error}): {text}") from None


def await_all(cluster: Cluster | None = None) -> Cluster:
    """Wait, in a coordinator, for the servers of all other tasks; return the cluster (default: that of `read`).

    A coordinator that is early fails, but workers without one wait for each other in TensorFlow. ClusterError names the
    tasks that do not answer within ``DDL_CLUSTER_TIMEOUT_S`` seconds (by default 180).
    """
    cluster, seconds = cluster or read(), cluster_timeout_s()
    others = cluster.tasks.items() if cluster.type == "chief" else ()
    absent = wait_for(others, lambda task: task[0] == cluster.name or answers(task[1]), seconds)
    if absent:
        missing = " and ".join(f"{task} at {address}" for task, address in absent)
        raise ClusterError(f"{cluster.name} waited {seconds:g} s for {missing}: nothing answers there")
    return cluster


def wait_for(absent: Iterable, has_come: Callable, seconds: float) -> list:
    """Poll `has_come` for each of `absent`; return those for which it is still False after `seconds`."""
    deadline = time.monotonic() + seconds
    while (absent := [each for each in absent if not has_come(each)]) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return absent


def answers(address: str) -> bool:
    """Return whether a server accepts connections at ``host:port``."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
    except OSError:
        return False
    return True


def serve(cluster: Cluster) -> None:
    """Serve the coordinator as a worker or a parameter server.

    In a launched run, and under horovodrun, return when the coordinator has called `dismiss` or its script has ended,
    and its process has exited or ten more seconds have passed. Elsewhere serve until killed.
    """
    import tensorflow as tf

    if cluster.type == "chief":
        raise ClusterError("the chief coordinates: serve() is for all the others")
    # Each step that waits inside the server for other steps takes a thread: with fewer threads it hangs.
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=len(cluster.workers) + 1)
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster.spec),
        job_name=cluster.type,
        task_index=cluster.index,
        protocol="grpc",
        config=config,
    )
    if rendezvous.ADDRESS not in os.environ:
        server.join()
    wait_for(cluster.chief, lambda _: _dismissed(), math.inf)
    wait_for(cluster.chief, lambda address: not answers(address), COORDINATOR_ENDS_S)


def dismiss() -> None:
    """Let `serve` return in the other tasks; do nothing if tasks were started by hand.

    `ddl.rank` calls it too, when the coordinator's script has ended without an error.
    """
    if rendezvous.ADDRESS in os.environ:
        rendezvous.write("dismissed", "yes")


def _dismissed():
    try:
        return rendezvous.read("dismissed") is not None
    except OSError:  # the rendezvous server ends with rank 0, the coordinator
        return True


# ---------------------------------------------------------------- in a launched run


_reserved = []  # sockets that keep this process' port for its server until the process ends


def publish(rank: int) -> None:
    """Reserve a port for this process's server, and publish its address for the other ranks.

    Until this process ends, no other program is given the port, but TensorFlow can still bind it.
    """
    port = socket.socket()
    # Until a socket listens, others with this option may bind too: TensorFlow's server does.
    port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    port.bind(("", 0))
    _reserved.append(port)
    host = os.environ.get("DDL_ADDRESS", "127.0.0.1")  # a task of Slurm's says which
    rendezvous.write(f"address-{rank}", f"{host}:{port.getsockname()[1]}")


def assemble(rank: int, roles: Roles) -> Cluster:
    """Wait until every rank has published its address; return the cluster as seen by this rank."""
    addresses = await_addresses([f"{task_name(*role)} (rank {other})" for other, role in enumerate(roles)])
    workers, chief, ps = (
        tuple(address for address, (type, _) in zip(addresses, roles, strict=True) if type == kind)
        for kind in ("worker", "chief", "ps")
    )
    return Cluster(*roles[rank], workers, chief, ps)


def await_addresses(names: Sequence[str]) -> list[str]:
    """Wait until ranks 0 to ``len(names) - 1`` have published their addresses, and return the addresses.

    ClusterError names those that have not done so within ``DDL_CLUSTER_TIMEOUT_S`` seconds (by default 180).
    """
    seconds = cluster_timeout_s()
    addresses: dict[int, str | None] = {}

    def is_known(rank: int) -> bool:
        addresses[rank] = rendezvous.read(f"address-{rank}")
        return bool(addresses[rank])

    if absent := wait_for(range(len(names)), is_known, seconds):
        raise ClusterError(
            f"{' and '.join(names[rank] for rank in absent)} did not start within {seconds:g} s. "
            "On a slow machine, set DDL_CLUSTER_TIMEOUT_S to a longer time"
        )
    return [addresses[rank] for rank in range(len(names))]


def torchrun(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Wait for rank 0's address, where PyTorch's ranks connect; return the variables that torchrun would set.

    They are listed in PyTorch's documentation of torchrun under "Environment Variables"; ``init_process_group`` needs
    nothing else, and the script also runs under torchrun. torchrun itself is not used: it would stand between the ranks
    and their supervisor, which could then neither tell by which signal a rank was killed nor start a rank as a task of
    Slurm. Gloo and NCCL are given this host's interface, because by default they look up the host's name.
    """
    [meeting] = await_addresses(["rank 0"])
    host, _, port = meeting.rpartition(":")
    interface = interface_of(environment.get("DDL_ADDRESS", "127.0.0.1"))
    ours = {name: environment[horovods] for name, horovods in TORCHRUN.items()}
    at = {"MASTER_ADDR": host, "MASTER_PORT": port, "GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    return {**ours, **at}
