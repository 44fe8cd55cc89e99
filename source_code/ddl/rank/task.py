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
import threading
import time

import psutil

from ddl.errors import CourseError
from ddl.launcher.commands import GLOO_TIMEOUT_S, TaskCommand
from ddl.rank import cluster, rendezvous
from ddl.rank.slot import Slot
from ddl.rank.starts import Starts, attempt
from ddl.rank.supervisor import Supervisor, enter_folder, shell_status, waits
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name
from ddl.records.network import addresses, interface_of

HOLD_S = 3.0  # when one rank ends, so do the others: let all record first where they are
LOOK_EVERY_S = 0.5  # at the clock, and for tasks whose ranks have failed
SERVE_S = 10.0  # for so long after rank 0 its task answers the others, which may still ask for addresses


class MeetingError(CourseError, OSError):
    """The ranks cannot meet: there is no address, no way to it, or no word from rank 0."""


def main():
    command = TaskCommand.of_this_process()
    keep_writing()
    slot = Slot.here()
    enter_folder(f"slurm-{attempt()}")
    sys.exit(Task(slot).run(command))


class Task(Supervisor):
    """Starts one rank, and supervises it; where runs start again, anew as often as the tasks that are left agree."""

    grace_s = 2.0

    def __init__(self, slot):
        super().__init__(watch_launcher=slot.rank == 0)  # Slurm ends the others
        self._asked = ""  # by which signal the rank was asked to end, where others have failed
        self.slot, self.starts = slot, Starts(self.folder, slot)
        self.child = None
        self.started = time.time()
        self.waiting = None
        self.folder.exit(slot.rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it

    @property
    def rank(self):
        return self.slot.rank

    def run(self, options: TaskCommand) -> int:
        """Run the task's command as this rank, and again while it may; return its exit status."""
        if options.timeout_s:
            self.watch(self._await_time_limit, options.timeout_s)
        while True:
            code = self._run_start(options)
            why_not = ""
            if code and not self.reason and options.max_restarts:
                why_not = self.starts.agree(options, code, self._asked)
                if self.starts.slot:
                    self.forget_processes()
                    self.slot, self._asked = self.starts.slot, ""
                    continue
                if not why_not:
                    return 0  # the others go on without this place
            self._record(code, reason=self.reason, waits=self.waiting, no_restart=why_not or None, **self.details)
            self._serve_to_the_end(options, code)
            return code

    def _run_start(self, options):
        """Run the rank once; return its status."""
        over = threading.Event()
        try:
            os.environ |= self._meeting(options.controller, options.network_interface)
            self.child = self.start_rank(options.command, self.slot)
        except (CourseError, OSError) as error:
            self._record(1, reason="launch", message=str(error))
            raise
        if options.controller == "none" and self.rank == 0:
            self.watch(self.await_cluster, over)
        self.watch(self.await_stalls, [self.rank], over)
        if options.max_restarts:
            self.watch(self._await_others, over)
        code = shell_status(self.child.wait())
        over.set()
        if code == 128 + signal.SIGTERM and not self.reason:
            time.sleep(0.2)  # Slurm tells both of us, in any order: ours may be on its way
        return code or int(self.reason is not None)

    def _await_others(self, over):
        """End this rank when another one has failed and its task waits to start again."""
        while not over.wait(LOOK_EVERY_S):
            if self.starts.ready():
                self._asked = "SIGTERM"
                self.end_processes()
                return

    def _await_time_limit(self, timeout_s):
        while self.started + timeout_s > time.time():  # `started` is rank 0's, once the tasks have met
            if self.stopping.wait(LOOK_EVERY_S):
                return
        self.await_time_limit(timeout_s, self.started)

    def _serve_to_the_end(self, options, code):
        if options.controller == "none" and self.rank == 0 and not code:
            others = range(1, self.slot.size)
            cluster.wait_for(others, lambda rank: self.stopping.is_set() or self.has_exited(rank), SERVE_S)
        if self.rank == 0:
            self.folder.free_reserved_space()

    def _record(self, code, **fields):
        known = {name: value for name, value in fields.items() if value is not None}
        record = {"rank": self.rank, "code": code, "time": time.time(), "host": host_name(), **known}
        self.write(self.folder.write_json, self.folder.exit(self.rank), record)

    # ---------------------------------------------------------------- what a supervisor asks

    def give_notice(self):
        """Slurm sends SIGTERM to the rank as well, and gives notice by a signal of its own: `--signal`."""
        return False

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
            meeting = {"address": own_address(interface), "port": port, "attempt": self.starts.name}
            meeting["time"] = time.time() if self.starts.is_first else self.started
            self.folder.write_json(self.folder.rendezvous, meeting)
        else:
            meeting = self._find_rendezvous()
        self.started = meeting["time"]  # one for all and all starts, so that a time limit ends all at once
        server = rendezvous.variables(meeting["address"], meeting["port"])
        if controller == "none":
            return {**server, "DDL_ADDRESS": own_address(interface)}
        return {**server, **rendezvous.through(controller, interface or interface_towards(meeting["address"]))}

    def _find_rendezvous(self):
        def is_written(path):
            os.listdir(path.parent)  # NFS remembers that a file was not there: look again
            return (read_json(path) or {}).get("attempt") == self.starts.name

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
