"""Attendees' servers on one machine, each with cores and memory of its own.

Cores are a limit of all that an attendee runs, held by the system (processor affinity). Memory is one of each process
(``RLIMIT_DATA``): an allocation above it fails in that process, and several processes together may take more.
"""

import os
import resource
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import Unicode, default

from ddl.rank.core_queue import QUEUE


def share_of_cores(cores: list[int], number: int, each: float | None) -> list[int]:
    """Return attendee `number`'s cores, `each` of them: two attendees have the same ones, or none in common.

    Where there are too few, one share goes to several, in turn.
    """
    size = max(1, min(int(each or len(cores)), len(cores)))
    first = number % (len(cores) // size) * size
    return cores[first : first + size]


class ClassSpawner(LocalProcessSpawner):
    """Starts servers with limits. Those who have the same cores launch in turn."""

    folder = Unicode(help="The class's folder").tag(config=True)

    @property
    def cores(self) -> list[int]:
        return share_of_cores(sorted(os.sched_getaffinity(0)), self.user.id, self.cpu_limit)

    def get_env(self):
        queue = Path(self.folder, "queue", "cores-" + "-".join(map(str, self.cores)))
        return super().get_env() | {QUEUE: str(queue)}

    def make_preexec_fn(self, name):
        become, cores, memory = super().make_preexec_fn(name), self.cores, self.mem_limit

        def preexec():
            os.sched_setaffinity(0, cores)
            if memory:
                resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
            become()

        return preexec


class OwnAccount(ClassSpawner):
    """Runs each server as the attendee's account of this system, which keeps files and processes apart."""


class OwnFolder(ClassSpawner, SimpleLocalProcessSpawner):
    """Runs all servers as the account of the hub, each in a folder of its own.

    Nothing but good manners keeps attendees apart: whoever opens a terminal reaches everybody's files and processes.
    """

    @default("home_dir")
    def _folder(self):
        return str(Path(self.folder, "attendees", self.user.name))

    def make_preexec_fn(self, name):
        Path(self.home_dir).mkdir(mode=0o700, exist_ok=True)
        return super().make_preexec_fn(name)
