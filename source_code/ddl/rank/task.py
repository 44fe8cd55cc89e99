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
from ddl.launcher.restarts import decide
from ddl.rank import cluster, rendezvous
from ddl.rank.rendezvous import Slot
from ddl.rank.supervisor import Supervisor, enter_folder, shell_status, waits
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name
from ddl.records.network import addresses, interface_of

HOLD_S = 3.0  # when one rank ends, so do the others: let all record first where they are
LOOK_EVERY_S = 0.5  # for tasks whose ranks have failed
JOIN_S = 20.0  # after the last task that waits for another start, no other one is expected: its node is lost
SERVE_S = 10.0  # for so long after rank 0 its task answers the others


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
        self.started = time.time()  # rank 0's, once the tasks have met
        self.waiting = None
        self.folder.exit(slot.rank).unlink(missing_ok=True)  # an earlier start of a requeued job left it

    @property
    def rank(self):
        return self.slot.rank

    def run(self, options: TaskCommand) -> int:
        """Run the task's command as this rank, and again while it may; return its exit status."""
        if options.timeout_s:
            self.watch(self.await_time_limit, options.timeout_s)
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
            if options.controller == "none" and self.rank == 0 and not code:  # others may still ask for addresses
                others = range(1, self.slot.size)
                cluster.wait_for(others, lambda rank: self.stopping.is_set() or self.has_exited(rank), SERVE_S)
            if self.rank == 0:
                self.folder.free_reserved_space()
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


# ---------------------------------------------------------------- starting again


def attempt() -> str:
    """Name this start of this run: a requeued job of Slurm starts again in the same folder."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


class Starts:
    """The starts of one task's rank; `slot` is the one that it has in the present start, None if it has none.

    Tasks agree on them through files in the run's folder: each whose rank has ended writes ``ready-<k>.json``. When all
    have, or those of a lost node are not to be expected any more, the first of them decides and writes who goes on to
    ``agreed.json``.
    """

    def __init__(self, folder: RunFolder, slot: Slot):
        self._folder, self._task, self._number = folder, slot.rank, 1
        self.slot: Slot | None = slot
        self._members = list(range(slot.size))  # tasks, in the order of their ranks
        self._node = slot.cross_rank

    @property
    def name(self) -> str:
        """Of the present start, the same in all tasks."""
        return attempt() if self.is_first else f"{attempt()}-{self._number}"

    @property
    def is_first(self) -> bool:
        return self._number == 1

    def ready(self) -> dict[int, dict]:
        """The tasks whose ranks have ended and that wait for the next start, with their records."""
        os.listdir(self._folder.path)  # NFS remembers that a file was not there: look again
        found = {task: read_json(self._folder.ready(task)) or {} for task in self._members}
        return {task: record for task, record in found.items() if record.get("after") == self.name}

    def agree(self, options: TaskCommand, code: int, asked: str) -> str:
        """Agree with the other tasks on the next start, after this one's rank has ended with a status.

        Afterwards `slot` is this task's in it, or None. Returns why there is none, empty where there is.
        """
        rank = self._members.index(self._task)
        record = {"after": self.name, "rank": rank, "code": code, "asked": asked, "node": self._node}
        self._folder.write_json(self._folder.ready(self._task), {**record, "time": time.time()})
        known = self._await_the_others()
        if self._task == min(known):
            self._decide(options, known)
        cluster.wait_for([0], lambda _: self._agreed(), GLOO_TIMEOUT_S)
        agreed = self._agreed() or {"no_restart": "the tasks could not agree on another start", "members": {}}
        members = {int(task): node for task, node in agreed["members"].items()}
        self._number, self._members = self._number + 1, list(members)
        self.slot = _slot(self._task, members) if self._task in members else None
        return agreed.get("no_restart", "")

    def _await_the_others(self):
        known, deadline = self.ready(), time.monotonic() + JOIN_S
        while len(known) < len(self._members) and time.monotonic() < deadline and not self._agreed():
            time.sleep(0.2)
            if len(now := self.ready()) > len(known):
                known, deadline = now, time.monotonic() + JOIN_S
        return known

    def _agreed(self):
        record = read_json(self._folder.agreed)
        return record if record and record.get("after") == self.name else None

    def _decide(self, options, known):
        if self._agreed():
            return  # others did not expect this task any more
        places = _whole_nodes({task: record["node"] for task, record in known.items()})
        exits = [{**record, "event": "rank_exit"} for record in known.values()]
        again = decide(self._folder, options, exits, len(self._members), len(places))
        if again.get("ranks", 0) < len(places) and "cause" in again:  # without the node whose rank can't start
            failed = self._members[again["cause"][0] or 0]
            places = {task: node for task, node in places.items() if node != places.get(failed)}
            if len(places) < options.min_workers:
                again = {"no_restart": f"there is room for {len(places)} ranks only, and min_workers says so"}
        agreed = {"after": self.name, "members": places if "ranks" in again else {}}
        if "ranks" in again:
            self._folder.forget_start(len(self._members))
            event = {"event": "restarted", "time": time.time(), **again, "ranks": len(places)}
            self._folder.append(self._folder.launcher, event)
        else:
            agreed["no_restart"] = again["no_restart"]
        self._folder.write_json(self._folder.agreed, agreed)


def _whole_nodes(nodes: dict[int, int]) -> dict[int, int]:
    """Of these tasks and their nodes, those on nodes that have as many as any."""
    counts = {node: list(nodes.values()).count(node) for node in nodes.values()}
    return {task: node for task, node in sorted(nodes.items()) if counts[node] == max(counts.values())}


def _slot(task: int, members: dict[int, int]) -> Slot:
    """A task's slot among these tasks and their nodes."""
    nodes, tasks = list(dict.fromkeys(members.values())), list(members)
    on_node = [each for each in tasks if members[each] == members[task]]
    return Slot(tasks.index(task), len(tasks), on_node.index(task), nodes.index(members[task]), len(nodes))


# ---------------------------------------------------------------- where this host is


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
