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

    `workers`, `chief` and `ps` are addresses, ``host:port``; there is at most one chief. ClusterError for a cluster
    that cannot work.
    """

    type: str
    index: int
    workers: tuple[str, ...] = ()
    chief: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.type not in TYPES:
            raise ClusterError(f"the task's type {self.type!r} is not one of: {', '.join(TYPES)}")
        alike = len(self.spec.get(self.type, ()))
        if type(self.index) is not int or not 0 <= self.index < alike:
            raise ClusterError(
                f"the task's type is {self.type!r} and its index {self.index!r}, but the cluster has "
                f"{plural(alike, 'task')} of that type, counted from 0"
            )
        if not self.workers or len(self.chief) > 1 or (self.ps and not self.chief):
            raise ClusterError(
                f"a cluster needs at least one worker, has at most one chief, and needs it where there are "
                f'parameter servers ("ps"), but this one has {plural(len(self.workers), "worker")}, '
                f"{plural(len(self.chief), 'chief')} and {plural(len(self.ps), 'parameter server')}"
            )
        addresses = list(self.tasks.values())
        for task, address in self.tasks.items():
            host_and_port(address, task)
            if addresses.count(address) > 1:
                raise ClusterError(f"{task} has the address {address}, and so has another task: each needs its own")

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
    def tf_config(self) -> str:
        """The text of ``TF_CONFIG`` for this task."""
        return json.dumps({"cluster": self.spec, "task": {"type": self.type, "index": self.index}})


def host_and_port(address: str, task: str) -> tuple[str, int]:
    """Divide a task's address; ClusterError if it is none."""
    host, _, port = str(address).rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise ClusterError(f"{task} has the address {address!r}: host:port is needed, for example 10.0.0.7:2222")
    return host.strip("[]"), int(port)
