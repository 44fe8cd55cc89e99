"""One rank of a job on several nodes: what ``srun`` starts, once for each rank.

    srun --nodes=2 --ntasks-per-node=2 ... python -m ddl.rank.task [OPTIONS] python -m ddl.rank ...

It needs neither ssh nor MPI: the ranks meet through Horovod's own rendezvous server, which rank 0's task runs, and
whose address it writes to the run's folder. (With ``--controller mpi`` they meet through PMIx.) Each task supervises
its rank (`ddl.rank.supervisor`), and records in ``exit-<k>.json`` how it ended.
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
from ddl.rank.slot import Slot
from ddl.rank.supervisor import Supervisor, enter_folder, shell_status, waits
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name
from ddl.records.network import addresses, interface_of

HOLD_S = 3.0  # when one rank ends, so do the others: let all record first where they are
SERVE_S = 10.0  # for so long after rank 0 its task answers the others, which may still ask for addresses


class MeetingError(CourseError, OSError):
    """The ranks cannot meet: there is no address, no way to it, or no word from rank 0."""


def main():
    command = TaskCommand.of_this_process()
    keep_writing()
    slot = Slot.here()
    enter_folder(f"slurm-{attempt()}")
    sys.exit(Task(slot).run(command))


def attempt():
    """Name this start of this run: a requeued job of Slurm starts again in the same folder."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


class Task(Supervisor):
    """Starts one rank, and supervises it."""

    grace_s = 2.0

    def __init__(self, slot):
        super().__init__(watch_launcher=slot.rank == 0)  # Slurm ends the others
        self.slot, self.rank = slot, slot.rank
        self.child = None
        self.started = time.time()
        self.waiting = None
        self.folder.exit(self.rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it

    def run(self, options: TaskCommand) -> int:
        """Run the task's command as this rank; return its exit status."""
        try:
            os.environ |= self._meeting(options.controller, options.network_interface)
            self.child = self.start_rank(options.command, self.slot)
        except (CourseError, OSError) as error:
            self._record(1, reason="launch", message=str(error))
            raise
        if options.timeout_s:
            self.watch(self.await_time_limit, options.timeout_s, self.started)
        serves = options.controller == "none" and self.rank == 0
        if serves:
            self.watch(self.await_cluster)
        self.watch(self.await_stalls, [self.rank])
        code = shell_status(self.child.wait())
        if code == 128 + signal.SIGTERM and not self.reason:
            time.sleep(0.2)  # Slurm tells both of us, in any order: ours may be on its way
        if self.reason:
            code = code or 1
        self._record(code, reason=self.reason, waits=self.waiting, **self.details)
        if serves and not code:
            others = range(1, self.slot.size)
            cluster.wait_for(others, lambda rank: self.stopping.is_set() or self.has_exited(rank), SERVE_S)
        if self.rank == 0:
            self.folder.free_reserved_space()
        return code

    def _record(self, code, **fields):
        known = {name: value for name, value in fields.items() if value is not None}
        record = {"rank": self.rank, "code": code, "time": time.time(), "host": host_name(), **known}
        self.write(self.folder.write_json, self.folder.exit(self.rank), record)

    # ---------------------------------------------------------------- what a supervisor asks

    def has_exited(self, rank):
        os.listdir(self.folder.path)  # NFS remembers that a file was not there: look again
        return self.folder.exit(rank).exists()

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
            _, port = rendezvous.server(self.slot.size, self.slot.cross_size)
            meeting = {"address": own_address(interface), "port": port, "attempt": attempt(), "time": time.time()}
            self.folder.write_json(self.folder.rendezvous, meeting)
        else:
            meeting = self._find_rendezvous()
        self.started = meeting["time"]  # one for all, so that a time limit ends all at once
        server = rendezvous.variables(meeting["address"], meeting["port"])
        if controller == "none":
            return {**server, "DDL_ADDRESS": own_address(interface)}
        return {**server, **rendezvous.through(controller, interface or interface_towards(meeting["address"]))}

    def _find_rendezvous(self):
        def is_written(path):
            os.listdir(path.parent)  # NFS remembers that a file was not there: look again
            return (read_json(path) or {}).get("attempt") == attempt()

        if cluster.wait_for([self.folder.rendezvous], is_written, GLOO_TIMEOUT_S):
            raise MeetingError(
                f"rank 0 did not say within {GLOO_TIMEOUT_S} s where the ranks meet, in "
                f"{self.folder.rendezvous}: do all nodes share that folder?"
            )
        return read_json(self.folder.rendezvous)


def own_address(interface: str) -> str:
    """This host's address that other nodes reach: the interface's, or the one of its name."""
    known = addresses()
    if interface:
        if interface not in known:
            raise MeetingError(
                f"network_interfaces: {host_name()} has no interface "
                f"{interface!r} with an IPv4 address; it has: {', '.join(known)}"
            )
        return known[interface]
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    stats = psutil.net_if_stats()
    up = [each for name, each in known.items() if stats[name].isup]
    return next((each for each in (named, *up) if not each.startswith("127.")), named)


def interface_towards(address: str) -> str:
    """Name of the interface that leads to `address`; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        local = probe.getsockname()[0]
    if interface := interface_of(local):
        return interface
    raise MeetingError(
        f"no interface of this host has the address {local} that leads to {address}; "
        "name one in the site file: network_interfaces"
    )


if __name__ == "__main__":
    main()
