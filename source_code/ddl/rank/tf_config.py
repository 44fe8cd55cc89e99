"""A cluster of tf.distribute as ``TF_CONFIG`` describes it, and what is wrong with one that cannot work."""

import json
from dataclasses import dataclass

from ddl.errors import CourseError
from ddl.launcher.roles import TYPES, task_name
from ddl.words import plural

EXAMPLE = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'


class ClusterError(CourseError, ValueError):
    """``TF_CONFIG`` is wrong, or a task of the cluster is missing."""


@dataclass(frozen=True)
class Cluster:
    """A cluster as one of its tasks sees it: task `index` of a type, "chief", "worker" or "ps".

    `workers`, `chief` and `ps` are addresses, ``host:port``; there is at most one chief.

    Raises
    ------
    ClusterError
        For a cluster that can't work.
    """

    type: str
    index: int
    workers: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("workers", "chief", "ps"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.type not in TYPES:
            raise ClusterError(f"TF_CONFIG: the task's type {self.type!r} is not one of: {', '.join(TYPES)}")
        alike = self.spec.get(self.type, [])
        if type(self.index) is not int or not 0 <= self.index < len(alike):
            have = f"{plural(len(alike), 'task')} of that type"
            valid = (
                f": an index from 0 to {len(alike) - 1} works" if alike else f': give "cluster" a list "{self.type}"'
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
            host_and_port(address, task)
            if addresses.count(address) > 1:
                raise ClusterError(
                    f"TF_CONFIG: {task} has the address {address}, which another task has too: every task needs its own"
                )

    @property
    def spec(self) -> dict[str, list[str]]:
        """Addresses by type, as ``tf.train.ClusterSpec`` takes them."""
        by_type = {"chief": self.chief, "worker": self.workers, "ps": self.ps}
        return {name: list(addresses) for name, addresses in by_type.items() if addresses}

    @property
    def tasks(self) -> dict[str, str]:
        """Addresses by the task's name ("chief", "worker 1"), in the order of ranks."""
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
    def address(self) -> str:
        """This task's own address."""
        return self.tasks[self.name]

    @property
    def writes(self) -> bool:
        """Whether this task writes the records: the chief, or worker 0 where there is none."""
        return self.index == 0 and self.type == ("chief" if self.chief else "worker")

    @property
    def local_rank(self) -> int:
        """This worker's number among those of its host; 0 for the other tasks."""
        hosts = [address.rpartition(":")[0] for address in self.workers]
        return hosts[: self.index].count(hosts[self.index]) if self.type == "worker" else 0

    @property
    def tf_config(self) -> str:
        """The text of ``TF_CONFIG`` for this task."""
        return json.dumps({"cluster": self.spec, "task": {"type": self.type, "index": self.index}})


def host_and_port(address: str, task: str) -> tuple[str, int]:
    """Divide a task's address.

    Raises
    ------
    ClusterError
        If it is none.
    """
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ClusterError(
            f"TF_CONFIG: {task} has the address {address!r}: host:port is needed, for example 10.0.0.7:2222"
        )
    return host.strip("[]"), int(port)
