"""Run one rank of a job on several nodes: ``srun`` starts ``python -m ddl.start.task FOLDER`` once for each rank.

This needs neither ssh nor MPI: the ranks connect through Horovod's rendezvous server, which rank 0's task runs, and
whose address it writes to the run's folder. (With ``controller = "mpi"`` they connect through PMIx.) Each task
supervises its rank and records in ``exit-<k>.json`` how it ended.
"""

import os
import signal
import socket
import sys
import threading
import time

from ddl.errors import CourseError, NotFound
from ddl.job.run_options import RunOptions
from ddl.job.timeouts import GLOO_TIMEOUT_S
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.records.machine import host_name
from ddl.records.network import addresses, interface_of
from ddl.start import rendezvous
from ddl.start.fast_exit import end_orphans
from ddl.start.rendezvous import Slot
from ddl.start.supervisor import Supervisor, enter_folder, import_libraries_only, shell_status
from ddl.start.tf_config import wait_for

HOLD_S = 3.0  # when one rank ends, the others end too: all tasks first record where their ranks are
POLL_S = 0.5
JOIN_S = 30.0  # how long to wait for the tasks of ranks that end, before their nodes count as lost
SERVE_S = 10.0  # how long rank 0's task answers the others after its rank has ended


def main():
    options = RunOptions.of_process()
    import_libraries_only()
    keep_writing()
    slot = Slot.here()
    enter_folder(f"slurm-{attempt()}")
    sys.exit(Task(options, slot).run())


def attempt() -> str:
    """Name this start of the job step; Slurm starts a requeued job again in the same folder."""
    return "-".join(os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"))


class Task(Supervisor):
    """Starts one rank and supervises it; if the run is restarted, starts it again."""

    grace_s = 2.0

    def __init__(self, options: RunOptions, slot: Slot):
        super().__init__(options, watch_launcher=slot.rank == 0)  # Slurm ends the others
        self.slot, self.number = slot, 1  # of the start
        self.child = None
        self.waiting = None
        self.started = time.time()  # rank 0's, once the tasks have met
        self.folder.exit(slot.rank).unlink(missing_ok=True)  # from an earlier start of a requeued job

    @property
    def controller(self):
        """The controller that connects the ranks; "none" if tf.distribute or PyTorch does it."""
        return self.options.controller if self.options.cluster == "horovod" else "none"

    @property
    def name(self) -> str:
        """The name of the present start, the same in all tasks."""
        return attempt() if self.number == 1 else f"{attempt()}-{self.number}"

    def run(self) -> int:
        """Run this rank, and run it again after each restart; return its exit status."""
        if self.options.timeout_s:
            self.watch(self.await_time_limit)
        while True:
            code, why_not = self._run_rank(), ""
            if code and not self.reason and self.options.max_restarts:
                agreed = self._agree(code)
                if "no_restart" not in agreed:
                    self.forget_processes()
                    self.number += 1
                    continue
                why_not = agreed["no_restart"]
            self._record(code, reason=self.reason, waits=self.waiting, no_restart=why_not or None, **self.details)
            if self.controller == "none" and self.slot.rank == 0 and not code:  # others may still ask for addresses
                others = range(1, self.slot.size)
                wait_for(others, lambda rank: self.stopping.is_set() or self._has_exited(rank), SERVE_S)
            end_orphans()
            return code

    def _run_rank(self):
        """Run the rank once; return its status."""
        over = threading.Event()
        try:
            os.environ |= self._meeting()
            self.child = self.start_rank(self.slot)
        except (CourseError, OSError) as error:
            self._record(1, reason="launch", message=str(error))
            raise
        self.watch(self.await_stalls, [self.slot.rank], over)
        if self.options.max_restarts:
            self.watch(self._await_failures, over)
        code = shell_status(self.child.wait())
        over.set()
        if code == 128 + signal.SIGTERM and not self.reason:
            time.sleep(0.2)  # Slurm signals the rank and this task in any order: this task's may still be on its way
        return code or int(self.reason is not None)

    def _has_exited(self, rank):
        os.listdir(self.folder.path)  # makes NFS forget that the file was missing
        return self.folder.exit(rank).exists()

    def _record(self, code, **fields):
        known = {name: value for name, value in fields.items() if value is not None}
        record = {"rank": self.slot.rank, "code": code, "time": time.time(), "host": host_name(), **known}
        self.folder.record(self.folder.exit(self.slot.rank), record)

    # ---------------------------------------------------------------- overrides

    def announce_preemption(self):
        """Do nothing: Slurm sends SIGTERM to the rank as well, and warns of the time limit by `--signal`."""
        return False

    def diagnose(self):
        (self.waiting,) = self.waits([self.slot.rank])
        self._record(1, reason="timeout", waits=self.waiting)
        time.sleep(HOLD_S)
        return {}

    # ---------------------------------------------------------------- connecting the ranks

    def _meeting(self):
        """Return the variables that tell ranks how and where to connect; rank 0's task starts the server."""
        if self.controller == "mpi":
            return rendezvous.through("mpi")
        interface = self.options.network_interface
        if self.slot.rank == 0:
            listening = rendezvous.listen()
            rendezvous.serve(listening, self.slot.size, self.slot.cross_size, self.options.cluster)
            port = listening.getsockname()[1]
            began = time.time() if self.number == 1 else self.started
            meeting = {"address": own_address(interface), "port": port, "start": self.name, "time": began}
            self.folder.write_json(self.folder.rendezvous, meeting)
        else:
            meeting = self._find_rendezvous()
        # The same moment in all tasks and starts, so that a time limit ends all at once.
        self.started = meeting["time"]
        self.began = time.monotonic() - (time.time() - self.started)
        server = rendezvous.variables(meeting["address"], meeting["port"])
        if self.controller == "none":
            return {**server, "DDL_ADDRESS": own_address(interface)}
        return {**server, **rendezvous.through("gloo", interface or interface_toward(meeting["address"]))}

    def _find_rendezvous(self):
        if wait_for([self.folder.rendezvous], self._of_this_start, GLOO_TIMEOUT_S):
            raise NotFound(
                f"rank 0 has not written its address to {self.folder.rendezvous} within {GLOO_TIMEOUT_S} s: check that "
                "all nodes share that folder"
            )
        return read_json(self.folder.rendezvous)

    def _of_this_start(self, path):
        """Return a record of the present start; None if it is missing or from another start."""
        os.listdir(path.parent)  # makes NFS forget that the file was missing
        record = read_json(path)
        return record if record and record.get("start") == self.name else None

    # ---------------------------------------------------------------- restarts

    # Each task whose rank has ended writes ``ready-<k>.json``. When all have, rank 0's task decides about a restart and
    # writes ``agreed.json``, which the others wait for.

    def _ready(self) -> dict[int, dict]:
        """Return the records of the tasks whose ranks have ended in this start, by rank."""
        found = {rank: self._of_this_start(self.folder.ready(rank)) for rank in range(self.slot.size)}
        return {rank: record for rank, record in found.items() if record}

    def _await_failures(self, over):
        """End this rank when another rank has failed and its task waits for a restart."""
        while not over.wait(POLL_S):
            if self._ready():
                self.end_processes()
                return

    def _agree(self, code):
        """Agree with the other tasks on a restart, after this rank has ended; return what rank 0's task decided."""
        record = {"start": self.name, "rank": self.slot.rank, "code": code, "asked": self.asked, "time": time.time()}
        self.folder.write_json(self.folder.ready(self.slot.rank), record)
        if self.slot.rank == 0:
            self._decide()
        wait_for([self.folder.agreed], self._of_this_start, GLOO_TIMEOUT_S)
        return self._of_this_start(self.folder.agreed) or {"no_restart": "rank 0's task did not answer"}

    def _decide(self):
        wait_for([self.slot.size], lambda ranks: len(self._ready()) == ranks, JOIN_S)
        known = self._ready()
        decision = {"no_restart": f"{self.slot.size - len(known)} of {self.slot.size} ranks are gone with their nodes"}
        if len(known) == self.slot.size:
            from ddl.follow.restarts import decide  # takes 40 ms, which would delay every start

            exits = [{**record, "event": "rank_exit"} for record in known.values()]
            decision = decide(self.folder, self.options.max_restarts, exits)
        if "no_restart" not in decision:
            self.folder.forget_start(self.slot.size)
            self.record("restarted", **decision)
        self.folder.write_json(self.folder.agreed, {"start": self.name, **decision})


# ---------------------------------------------------------------- this host's address


def own_address(interface: str) -> str:
    """Return this host's address for other nodes: the interface's, or else the name's."""
    known = addresses()
    if interface:
        if interface not in known:
            raise NotFound(
                f"network_interfaces: {host_name()} has no interface {interface!r} with an IPv4 address; it has: "
                f"{', '.join(known)}"
            )
        return known[interface]
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    return next((each for each in (named, *known.values()) if not each.startswith("127.")), named)


def interface_toward(address: str) -> str:
    """Return the name of the interface that leads to `address`; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        local = probe.getsockname()[0]
    if interface := interface_of(local):
        return interface
    raise NotFound(
        f"no interface of this host has the address {local}, which leads to {address}; name one in the site file "
        "(network_interfaces)"
    )


if __name__ == "__main__":
    main()
