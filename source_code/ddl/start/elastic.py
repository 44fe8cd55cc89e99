"""Run Horovod's elastic training on one host: ``python -m ddl.start.elastic FOLDER``.

Horovod's own driver looks for hosts, forms worlds of ranks and replaces failed ranks. Only the starting and ending of
processes is done here, so that an elastic run leaves the same records as any other. ``launcher.jsonl`` has an event
``ranks`` for each world, with its number of ranks.

A process keeps its number, which names its files (``rank-<number>.json`` and so on), while Horovod may change its rank.
A new process takes the lowest free number, and continues that log.

Surprises in Horovod 0.28.1, and what is done about them:

* It looks for common network interfaces as soon as there are two hosts. It gets the loopback interface instead.
* It ends all ranks of a host on which one fails, and never uses that host again. Here it does after `COOLDOWN_S`; if
  all ranks are on that host, the run fails.
* It fails if the discovery script names none of the hosts that have ranks. Here the hosts then stay as they are.
* If a rank is killed before the others have met it in ``hvd.init()``, they wait there until Gloo's timeout. Then
  they and the run abort.
* It tells rank 0 only once that hosts have changed, even if rank 0 is still importing or does not answer. Here it is
  told every `NOTIFY_S` until the world is the one that the discovery script asks for.
* A rank whose host the discovery script drops ends with SIGABRT, which does not count as a failure of the run.
* Rank 0 broadcasts the optimizer's variables, so they must exist before the state is created (horovod #2652).
* Scripts that hang or crash while the world changes have been reported without an explanation (#2844, #3852, #4021).
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ddl.errors import InputError
from ddl.job.run_options import RunOptions
from ddl.job.timeouts import COOLDOWN_S
from ddl.records.jsonfiles import read_json
from ddl.start import rendezvous
from ddl.start.fast_exit import run_and_exit
from ddl.start.one_host import POLL_S, OneHost, main
from ddl.start.rendezvous import Slot
from ddl.start.supervisor import shell_status

ENOUGH_S = 600  # for a place to appear
DISCOVERY_S = 30  # for the discovery script
LEAVE_S = 20  # for a rank whose place is gone to end
NOTIFY_S = 5

Place = tuple[str, int]  # a host's name, and the number of a rank there


class Elastic(OneHost):
    """Starts ranks where Horovod's driver wants them, and supervises them."""

    def __init__(self, options: RunOptions):
        super().__init__(options)
        self._most, self._script = options.ranks, self.folder.discovery
        self._driver: Any = None
        self._numbers: list[int] = []  # of the running processes
        self._world: set[Place] = set()  # the places of the present world
        self._ended = threading.Condition()
        self._hosts: dict[str, int] = {}
        self._problem = ""  # with the discovery script's last output

    def run_ranks(self):
        from horovod.runner import gloo_run
        from horovod.runner.elastic.settings import ElasticSettings

        self._hosts = hosts_of(self._script)  # raises before anything starts
        os.environ |= {**rendezvous.through("gloo", self.interface), "HOROVOD_ELASTIC": "1"}
        gloo_run.register_shutdown_event = threading.Event  # this supervisor handles signals
        limits = 1, self._most, ENOUGH_S, None, COOLDOWN_S
        settings = ElasticSettings(self, *limits, num_proc=1, nics={self.interface})
        over = threading.Event()
        self.watch(self.await_stalls, self._numbers, over)
        self.watch(self._keep_notifying, over)
        self.watch(self._drive, gloo_run.launch_gloo_elastic, settings, over)
        while not over.wait(POLL_S) and (self._numbers or not self.stopping.is_set()):
            pass  # when the run is stopped, the driver is not waited for

    def _drive(self, launch, settings, over):
        """Let Horovod run the ranks; an exception of its driver matters only if no rank has failed."""

        def interfaces(driver):
            self._driver = driver
            return settings.nics

        try:
            launch(["true"], self._run_place, settings, {}, interfaces, _server(self._formed), sys.executable)
        except Exception as error:
            if not any(self.exit_codes.values()):
                self.end("launch", message=str(error))
        finally:
            over.set()

    def _run_place(self, _, slot, events):
        """Run one process until it ends or one of the driver's events is set; return (code, time)."""
        place = slot.hostname, slot.local_rank
        with self._ended:
            self._ended.wait_for(lambda: len(self._numbers) < self._most, LEAVE_S)
            number = next(number for number in count() if number not in self._numbers)
            self._numbers.append(number)
        try:
            code = self._run_process(slot, number, events)
        finally:
            with self._ended:
                gone = place not in self._world  # its host is gone, or another rank failed there
                error = read_json(self.folder.error(number)) or {}
                if gone:
                    self._forget(number)
                self._numbers.remove(number)
                self._ended.notify_all()
        if not gone:
            self.exit_codes[number] = code
        removed = {"reason": "removed"} if gone else {}
        self.record("rank_exit", rank=number, code=code, asked=self.asked, why=error.get("type", ""), **removed)
        return code, time.time()

    def _run_process(self, slot, number, events):
        """Run a process, and end it when one of these events is set; return its exit status as a shell shows it."""
        over = threading.Event()
        ours = Slot(slot.rank, slot.size, slot.local_rank, slot.cross_rank, slot.cross_size)
        its = {"HOROVOD_HOSTNAME": slot.hostname, "HOROVOD_LOCAL_SIZE": str(slot.local_size)}
        child = self.start_rank(ours, **its, DDL_PROCESS=str(number))
        self.watch(self._end_at, events, over, child)
        try:
            return shell_status(child.wait())
        finally:
            over.set()

    def _end_at(self, events, over, child):
        """End a process when one of these events is set before it is over."""
        while not over.wait(POLL_S):
            if any(event.is_set() for event in events):
                child.send_signal(signal.SIGTERM)
                if not over.wait(self.grace_s):
                    child.send_signal(signal.SIGKILL)
                return

    def _formed(self, slots):
        """Record a new world."""
        with self._ended:
            self._world = {(slot.hostname, slot.local_rank) for slot in slots}
            for number in set(range(self._most)).difference(self._numbers):
                self._forget(number)
            self.exit_codes = {}
            self.record("ranks", ranks=len(slots))

    def _forget(self, number):
        for file in (self.folder.rank, self.folder.error, self.folder.stack, self.folder.stalled):
            file(number).unlink(missing_ok=True)

    def _keep_notifying(self, over):
        """Notify rank 0 that hosts have changed until the world matches the discovery script."""
        from horovod.runner.elastic.worker import HostUpdateResult

        while not over.wait(NOTIFY_S):
            driver = self._driver
            if driver and driver.host_assignments and not driver.finished():
                with driver._wait_hosts_cond:
                    driver._notify_workers_host_changes(driver._host_manager.current_hosts, HostUpdateResult.added)

    # ---------------------------------------------------------------- called by Horovod's driver

    def find_available_hosts_and_slots(self) -> dict[str, int]:
        """Run the discovery script. If its output can't be used, keep the present hosts and record why."""
        problem, had = "", {host for host, _ in self._world}
        try:
            hosts = {host: slots for host, slots in hosts_of(self._script).items() if slots}
            if hosts and had and not had & hosts.keys():
                names = " and ".join(sorted(had))
                raise InputError(f"the discovery script {self._script} drops {names}, which has all the ranks")
            self._hosts = hosts
            if not hosts:
                problem = "the discovery script names no host; training waits for one"
        except InputError as error:
            problem = f"hosts are unchanged: {error}"
        if problem != self._problem:
            self._problem = problem
            self.record("discovery", problem=problem)
        return self._hosts

    # ---------------------------------------------------------------- overrides

    def _decide_restart(self):
        """Say why Horovod gave up if all ranks were on one host; an elastic run is never restarted as a whole."""
        hosts = {host for host, _ in self._world}
        if self.reason or not any(self.exit_codes.values()) or len(self._world) < 2 or len(hosts) > 1:
            return {}
        return {"no_restart": f"all ranks were on {hosts.pop()}, and Horovod drops a host on which one fails"}

    def running(self):
        return list(self._numbers)


def _server(formed: Callable[[Sequence[Any]], None]) -> Any:
    """Return Horovod's rendezvous server, which calls `formed` with the slots of each new world."""
    from horovod.runner.http.http_server import RendezvousHTTPServer, RendezvousServer

    listening = rendezvous.listen(Elastic.server_address)
    rendezvous.use(listening)
    RendezvousHTTPServer.daemon_threads = True

    class Server(RendezvousServer):
        def start(self, handler):
            super().start(handler)
            address, port = listening.getsockname()
            os.environ |= rendezvous.variables(address, port)
            return port

        def init(self, slots):
            super().init(slots)
            formed(slots)

    return Server()


def hosts_of(script: Path) -> dict[str, int]:
    """Run a discovery script; return the number of slots of each host.

    InputError if it fails, takes too long, or prints anything but names of the loopback interface with numbers.
    """
    try:
        ran = subprocess.run([script], capture_output=True, text=True, timeout=DISCOVERY_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or ""
        raise InputError(f"the discovery script failed: {error} {said.strip()}") from None
    hosts = {}
    for line in filter(None, map(str.strip, ran.stdout.splitlines())):
        found = re.fullmatch(r"(localhost|127\.[\d.]+):(\d+)", line)
        if not found:
            examples = "localhost:1 or 127.0.0.1:1"
            raise InputError(f"the discovery script {script} must print lines like {examples}, got {line!r}")
        hosts[found[1]] = int(found[2])
    return hosts


if __name__ == "__main__":
    run_and_exit(lambda: main(Elastic))
