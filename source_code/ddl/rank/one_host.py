"""All ranks of one host: ``python -m ddl.rank.one_host --processes N [--timeout-s S] COMMAND``.

It starts what ``horovodrun --gloo`` would, and the ranks meet through the same server of Horovod's. It records when and
how each rank ended, because a killed rank cannot say so itself, and ends the run early when there is a reason to
(`ddl.rank.supervisor`).
"""

import json
import os
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ddl.errors import CourseError
from ddl.launcher import processes
from ddl.launcher.commands import HostsCommand, OneHostCommand, RankCommand
from ddl.launcher.restarts import decide
from ddl.rank import rendezvous
from ddl.rank.ending import run_and_end
from ddl.rank.queue import Ticket
from ddl.rank.rendezvous import Slot, slots
from ddl.rank.supervisor import Supervisor, shell_status
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.log import keep_writing
from ddl.records.paths import cache_dir

LOOK_EVERY_S = 0.3  # at the queue


class BrokenHorovod(CourseError, RuntimeError):
    """Horovod is not installed, cannot be loaded, or does not know TensorFlow."""


def main():
    command = OneHostCommand.of_this_process()
    keep_writing()
    sys.exit(OneHost().run(command))


class OneHost(Supervisor):
    """Starts all ranks, and supervises them."""

    server_address, interface = "127.0.0.1", "lo"

    def __init__(self):
        super().__init__()
        self.slots: list[Slot] = []
        self.exit_codes: dict[int, int] = {}
        self._asked = ""  # by which signal the ranks were asked to end

    def run(self, command: OneHostCommand | HostsCommand, nodes: int = 1) -> int:
        """Run all ranks; return the exit status of the whole run."""
        self.record("launched", pid=os.getpid())
        ticket = Ticket.of(self.folder)
        if ticket:
            self._await(ticket)
        self.started = time.time()
        if command.timeout_s:
            self.watch(self.await_time_limit, command.timeout_s)
        again: dict = {"ranks": command.processes}
        try:
            while "ranks" in again and not self.stopping.is_set():
                self.slots = slots(again["ranks"], self.hosts(nodes))
                self._run_ranks(command.command)
                again = self._start_again(command)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self.end("launch", message=str(error))
        processes.end(self.run_id, mark="DDL_RANKS_OF")  # children that a rank left behind
        if ticket:
            ticket.give_back()
        state = self._state()
        why_not = {"no_restart": again["no_restart"]} if again.get("no_restart") else {}
        self.record("ended", state=state, **({"reason": self.reason, **self.details} if self.reason else why_not))
        self.folder.free_reserved_space()
        return 0 if state == "done" else 1

    def _await(self, ticket):
        """Wait for cores that are shared, and record what for; a reason to stop ends that, too."""
        recorded = ""
        while not self.stopping.is_set() and (waiting := ticket.waits_for()):
            if waiting != recorded:
                self.folder.write_text(self.folder.waiting, recorded := waiting)
            self.stopping.wait(LOOK_EVERY_S)
        if recorded:
            self.folder.write_json(self.folder.turn, {"time": time.time()})
            self.folder.waiting.unlink(missing_ok=True)

    def prepare(self, cluster: str) -> None:
        """Do what has to be done before ranks can start."""
        if cluster == "horovod" and not built_with()["gloo"]:
            raise BrokenHorovod("this Horovod was built without Gloo, through which its ranks meet: run `make setup`")

    def hosts(self, nodes: int) -> int:
        """How many of the hosts are left for the ranks."""
        return nodes

    def _start_again(self, command: OneHostCommand | HostsCommand) -> dict:
        """After a failure, make ready for the next start: `decide` says whether there is one."""
        if self.noticed and any(self.exit_codes.values()):
            self.reason = self.reason or "SIGTERM"  # meant for all; some had nothing to write
        if self.reason or not any(self.exit_codes.values()):
            return {}
        ranks, first = len(self.slots), self.slots[0]
        places = first.local_size * self.hosts(first.cross_size) if first.cross_size > 1 else ranks
        again = decide(self.folder, command, (), ranks, places)
        if "ranks" in again:
            processes.end(self.run_id, mark="DDL_RANKS_OF")
            self.forget_processes()
            self.exit_codes, self._asked = {}, ""
            self.folder.forget_start(ranks)
            self.record("restarted", **again)
        return again

    def _run_ranks(self, words):
        self.prepare(RankCommand.within(words).cluster)
        _, port = rendezvous.server(len(self.slots), self.slots[0].cross_size)
        os.environ |= {**rendezvous.variables(self.server_address, port), **rendezvous.through("gloo", self.interface)}
        over = threading.Event()
        self.watch(self.await_cluster, over)
        self.watch(self.await_stalls, range(len(self.slots)), over)
        if RankCommand.within(words).cluster in ("horovod", "torchrun"):
            self.watch(self.await_straggler, range(len(self.slots)), over)
        with ThreadPoolExecutor(len(self.slots)) as pool:
            runs = [pool.submit(self._run_rank, words, slot) for slot in self.slots]
        over.set()
        for run in runs:
            run.result()

    def _run_rank(self, words, slot):
        """Run a rank, and record its exit status as a shell shows it."""
        try:
            code = shell_status(self.start_rank(words, slot).wait())
        except BaseException:
            self.end_processes()
            raise
        self.exit_codes[slot.rank] = code
        self.record("rank_exit", rank=slot.rank, code=code, asked=self._asked)
        if code:
            if code > 128 and not self.stopping.is_set():
                self.waits(self.running())  # a killed rank cannot say why: keep where the others were
            self.end_processes()

    def _state(self):
        if self.reason:
            return "failed" if self.reason in ("timeout", "absent", "launch") else "stopped"
        return "failed" if any(self.exit_codes.values()) else "done"

    # ---------------------------------------------------------------- what a supervisor asks

    def terminate(self):
        self._asked = self._asked or "SIGTERM"
        super().terminate()

    def kill(self):
        self._asked = "SIGKILL"
        processes.end(self.run_id, mark="DDL_RANKS_OF")

    def has_exited(self, rank):
        return rank in self.exit_codes

    def diagnose(self, reason):
        ranks = self.running()
        waiting = self.waits(ranks)
        if reason != "timeout":
            return {}
        missing = [rank for rank, waits_for_others in zip(ranks, waiting) if not waits_for_others]
        return {"missing": missing if any(waiting) else []}

    def running(self) -> Sequence[int]:
        """The ranks, by the numbers that name their files."""
        return range(len(self.slots))


def built_with() -> dict[str, bool]:
    """Load Horovod in another process; return what it was built with: ``{"gloo": bool, "mpi": bool, ...}``.

    That imports TensorFlow or PyTorch, so the answer is kept as long as Horovod's library is the same file.
    """
    library = _library()
    stat = library.stat()
    key = zlib.crc32(f"{library}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    path = cache_dir() / f"horovod-build-{key:08x}.json"
    with suppress(DamagedFile):
        if known := read_json(path, {"gloo": bool}):
            return known
    code = (
        f"import json, horovod.{library.parent.name} as hvd; print(json.dumps({{n: bool(getattr(hvd, "
        "n + '_built')()) for n in ('gloo', 'mpi', 'nccl', 'cuda')}))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if answer.returncode:
        raise BrokenHorovod(f"Horovod cannot be loaded: {answer.stderr.strip().splitlines()[-1]}")
    built = json.loads(answer.stdout.splitlines()[-1])
    with suppress(OSError):  # a disk that is full, or cannot be written: it is asked again
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, built)
    return built


def _library():
    """Horovod's library, for TensorFlow or else for PyTorch."""
    spec = find_spec("horovod")
    if not spec:
        raise BrokenHorovod("Horovod is not installed: run `make setup`")
    for framework in ("tensorflow", "torch"):
        for library in Path(spec.origin).parent.glob(f"{framework}/mpi_lib*.so"):
            return library
    raise BrokenHorovod(
        "this Horovod was built without TensorFlow and without PyTorch: "
        "remove it and its cached wheel, then run `make setup` again"
    )


if __name__ == "__main__":
    run_and_end(main)
