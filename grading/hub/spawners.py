"""Spawners for attendees' servers on one machine, with limits on cores and memory.

The limit on cores covers all of an attendee's processes (processor affinity). The limit on memory is per process
(``RLIMIT_DATA``): an allocation above it fails, and several processes together may use more.
"""

import os
import resource
from pathlib import Path

from jupyterhub.spawner import LocalProcessSpawner, SimpleLocalProcessSpawner
from traitlets import Unicode, default

from ddl.start.core_queue import QUEUE


def share_of_cores(cores: list[int], number: int, each: float | None) -> list[int]:
    """Return attendee `number`'s cores, `each` of them; two attendees' sets are equal or disjoint.

    If there are too few, several attendees get the same set.
    """
    size = max(1, min(int(each or len(cores)), len(cores)))
    first = number % (len(cores) // size) * size
    return cores[first : first + size]


class ClassSpawner(LocalProcessSpawner):
    """Spawner with limits. Attendees with the same cores take turns to launch."""

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
    """Spawner that uses attendees' system accounts, which isolates files and processes."""


class OwnFolder(ClassSpawner, SimpleLocalProcessSpawner):
    """Spawner that runs all servers as the hub's account, in separate folders.

    Attendees are not isolated: anyone with a terminal can access everyone's files and processes.
    """

    @default("home_dir")
    def _folder(self):
        return str(Path(self.folder, "attendees", self.user.name))

    def make_preexec_fn(self, name):
        Path(self.home_dir).mkdir(mode=0o700, exist_ok=True)
        return super().make_preexec_fn(name)
