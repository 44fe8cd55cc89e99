"""One rank of a job on several nodes: what ``srun`` starts, once for each rank.

    srun --nodes=2 --ntasks-per-node=2 ... python -m ddl.rank.task [OPTIONS] python -m ddl.rank ...

`ddl.rank.hosts` starts it, too, on hosts that it makes on this machine.

It needs neither ssh nor MPI: rank, local rank and size come from what starts it (`ddl.rank.slot`), and
the ranks meet through Horovod's own rendezvous server, which rank 0's task runs and whose address
it writes to the run's folder. (With ``--controller mpi`` they meet through PMIx.) Ranks of tf.distribute and PyTorch
(``--controller none``) find each other's addresses in that server.

Each task supervises its rank (`ddl.rank.supervisor`), and records in ``exit-<k>.json`` how it ended.
"""

import os
import signal
import socket
import sys
import time

import psutil

from ddl.errors import CourseError
from ddl.launcher.commands import GLOO_TIMEOUT_S, TaskCommand
from ddl.rank import cluster, rendezvous
from ddl.rank.slot import VARIABLE, Slot
from ddl.rank.start import start
from ddl.rank.supervisor import Supervisor, enter_folder, shell_status, waits
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name

HOLD_S = 3.0  # when one rank ends, so do the others: let all record first where they are
SERVE_S = 10.0  # for so long after rank 0 its task answers the others, which may still ask for addresses
LOOK_EVERY_S = 0.1


class MeetingError(CourseError, OSError):
    """The ranks cannot meet: there is no address, no way to it, or no word from rank 0."""


def main():
    command = TaskCommand.of_this_process()
    keep_writing()
    slot = Slot.here()
    enter_folder(f"slurm-{cluster.attempt()}")
    sys.exit(Task(slot).run(command))


class Task(Supervisor):
    """Starts one rank, and supervises it."""

    grace_s = 2.0

    def __init__(self, slot):
        # Rank 0's task is enough under Slurm, which ends the others; `ddl.rank.hosts` itself may be gone.
        super().__init__(watch_launcher=slot.rank == 0 or VARIABLE in os.environ)
        self.slot = slot
        self.rank = slot.rank
        self.child = None
        self.started = time.time()
        self.waiting = None
        self.folder.exit(self.rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it

    def run(self, options: TaskCommand) -> int:
        """Run the task's command as this rank; return its exit status."""
        environment = {**os.environ, **self.slot.horovod, "PYTHONUNBUFFERED": "1", "DDL_RANKS_OF": self.run_id}
        if not self.folder.job.exists():  # of a pasted line: what its ranks print goes to the terminal
            del environment["DDL_RUN_DIR"]
        try:
            environment |= self._meeting(options.controller, options.network_interface)
            self.child = start(options.command, environment, self.stopping)
        except (CourseError, OSError) as error:
            self._record(1, reason="launch", message=str(error))
            raise
        self.follow(self.child)
        if options.timeout_s:
            self.limit(options.timeout_s, self.started)
        if options.controller == "none" and self.rank == 0:
            self.watch_cluster()
        self.watch_progress([self.rank])
        code = shell_status(self.child.wait())
        if code == 128 + signal.SIGTERM and not self.reason:
            time.sleep(0.2)  # Slurm tells both of us, in any order: ours may be on its way
        if self.reason:
            code = code or 1
        self._record(code, reason=self.reason, waits=self.waiting, **self.details)
        if self.rank == 0:
            if options.controller == "none" and not code:
                self._serve_others()
            self.folder.free_reserved_space()
        return code

    def _serve_others(self):
        deadline, others = time.monotonic() + SERVE_S, range(1, self.slot.size)
        while time.monotonic() < deadline and not all(map(self.has_exited, others)):
            os.listdir(self.folder.path)  # NFS remembers that a file was not there: look again
            if self.stopping.wait(LOOK_EVERY_S):
                break

    def _record(self, code, **fields):
        known = {name: value for name, value in fields.items() if value is not None}
        self.record_exit(self.rank, code, host=host_name(), **known)

    # ---------------------------------------------------------------- what a supervisor asks

    def diagnose(self, reason):
        if reason == "timeout":
            self.waiting = waits(self.child.pid, self.folder.stack(self.rank))
            self._record(1, reason="timeout", waits=self.waiting)
            time.sleep(HOLD_S)
        return {}

    # ---------------------------------------------------------------- meeting the other ranks

    def _meeting(self, controller, interface):
        """Return the variables that say how the ranks meet, and where; rank 0's task starts the server."""
        if controller == "mpi":
            return rendezvous.through(controller)
        if self.rank == 0:
            self.server, port = rendezvous.server(self.slot.size, self.slot.nodes)
            meeting = {
                "address": own_address(interface),
                "port": port,
                "attempt": cluster.attempt(),
                "time": time.time(),
            }
            self.folder.write_json(self.folder.rendezvous, meeting)
        else:
            meeting = self._find_rendezvous()
        self.started = meeting["time"]  # one for all, so that a time limit ends all at once
        server = rendezvous.variables(meeting["address"], meeting["port"])
        if controller == "none":
            return {**server, "DDL_ADDRESS": own_address(interface)}
        interface = interface or interface_towards(meeting["address"])
        return {**server, **rendezvous.through(controller, interface), "NCCL_SOCKET_IFNAME": interface}

    def _find_rendezvous(self):
        deadline = time.monotonic() + GLOO_TIMEOUT_S
        while time.monotonic() < deadline:
            meeting = read_json(self.folder.rendezvous)
            if meeting and meeting["attempt"] == cluster.attempt():
                return meeting
            os.listdir(self.folder.path)  # NFS remembers that a file was not there: look again
            time.sleep(LOOK_EVERY_S)
        raise MeetingError(
            f"rank 0 did not say within {GLOO_TIMEOUT_S} s where the ranks meet, in "
            f"{self.folder.rendezvous}: do all nodes share that folder?"
        )


def own_address(interface: str) -> str:
    """This host's address that other nodes reach: the interface's, or the one of its name."""
    addresses = {
        name: [entry.address for entry in entries if entry.family == socket.AF_INET]
        for name, entries in psutil.net_if_addrs().items()
    }
    if interface:
        if not addresses.get(interface):
            raise MeetingError(
                f"network_interfaces: {host_name()} has no interface "
                f"{interface!r} with an IPv4 address; it has: {', '.join(addresses)}"
            )
        return addresses[interface][0]
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    if not named.startswith("127."):
        return named
    stats = psutil.net_if_stats()
    others = [
        each[0] for name, each in addresses.items() if each and stats[name].isup and not each[0].startswith("127.")
    ]
    return others[0] if others else named


def interface_towards(address: str) -> str:
    """Name of the interface that leads to `address`; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        local = probe.getsockname()[0]
    for name, entries in psutil.net_if_addrs().items():
        if any(entry.address == local for entry in entries):
            return name
    raise MeetingError(
        f"no interface of this host has the address {local} that leads to {address}; "
        "name one in the site file: network_interfaces"
    )


if __name__ == "__main__":
    main()
