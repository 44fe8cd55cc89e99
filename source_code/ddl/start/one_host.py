"""Run all ranks of one host: ``python -m ddl.start.one_host FOLDER``.

Horovod's ranks are started as ``horovodrun --gloo`` would start them, with the same rendezvous server.
The supervisor records when and how each rank ended, because a killed rank can't.
"""

import getpass
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ddl.follow import processes
from ddl.job.run_options import RunOptions
from ddl.records.jsonfiles import read_json
from ddl.records.log import keep_writing
from ddl.start import rendezvous
from ddl.start.core_queue import QUEUE, take_turn
from ddl.start.fast_exit import end_orphans, run_and_exit
from ddl.start.rendezvous import Slot, slots
from ddl.start.supervisor import Supervisor, import_libraries_only, shell_status

POLL_S = 0.3


class OneHost(Supervisor):
    """Starts all ranks, supervises them, and restarts them."""

    server_address, interface = "127.0.0.1", "lo"

    def __init__(self, options: RunOptions):
        super().__init__(options)
        self.slots: list[Slot] = []
        self.exit_codes: dict[int, int] = {}

    def run(self) -> int:
        """Run all ranks; return the exit status of the run."""
        self.record("launched", pid=os.getpid())
        turn, restart = None, {}
        try:
            turn = self._take_turn()
            self.began = time.monotonic()
            if self.options.timeout_s:
                self.watch(self.await_time_limit)
            if not self.stopping.is_set():
                self.prepare()
                self.run_ranks()
            while "reason" in (restart := self._decide_restart()):
                processes.end(self.run_id, mark="DDL_RANKS_OF")
                self.forget_processes()
                self.exit_codes = {}
                self.folder.forget_start(len(self.slots))
                self.record("restarted", **restart)
                self.run_ranks()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            self.end("launch", message=str(error))
        processes.end(self.run_id, mark="DDL_RANKS_OF")  # children that ranks left behind
        end_orphans()  # and those without the mark
        if turn:
            turn.close()
        state = self._state()
        why_not = {"no_restart": restart["no_restart"]} if restart.get("no_restart") else {}
        self.record("ended", state=state, **({"reason": self.reason, **self.details} if self.reason else why_not))
        return 0 if state == "done" else 1

    def _take_turn(self):
        """Wait for this run's turn if it shares cores with others, and record what it waits for."""
        if not os.environ.get(QUEUE):
            return None  # in a container, the user may have no name
        name = f"{getpass.getuser()}'s {json.dumps((read_json(self.folder.job) or {}).get('name', ''))}"
        turn = take_turn(name, self.stopping, lambda text: self.folder.write_text(self.folder.waiting, text))
        if self.folder.waiting.exists():
            self.folder.write_json(self.folder.turn, {"time": time.time()})
            self.folder.waiting.unlink()
        return turn

    def prepare(self) -> None:
        """Prepare the place, once, before the first rank starts."""

    def _decide_restart(self) -> dict:
        """Return the result of `decide` for the ranks that have ended; empty if none has failed."""
        if self.preempted and any(self.exit_codes.values()):
            self.reason = self.reason or "SIGTERM"  # meant for all; some had nothing to write
        if self.reason or not any(self.exit_codes.values()):
            return {}
        from ddl.follow.restarts import decide  # takes 40 ms, which would delay every start

        return decide(self.folder, self.options.max_restarts)

    def run_ranks(self) -> None:
        """Start all ranks and wait for them."""
        options = self.options
        self.slots = slots(options.ranks, options.nodes)
        listening = rendezvous.listen(self.server_address)
        meeting = rendezvous.through("gloo", self.interface, debugging=options.debug is not None)
        os.environ |= {**rendezvous.variables(*listening.getsockname()), **meeting}
        over = threading.Event()
        if options.debug is None:  # ranks of a run that is debugged wait for the user
            self.watch(self.await_stalls, range(len(self.slots)), over)
            if not options.roles():
                self.watch(self.await_straggler, range(len(self.slots)), over)
        with ThreadPoolExecutor(len(self.slots)) as pool:
            runs = [pool.submit(self._run_rank, slot) for slot in self.slots]
            try:
                rendezvous.serve(listening, options.ranks, options.nodes, options.cluster)
            except BaseException:
                self.end_processes()
                raise
        over.set()
        for run in runs:
            run.result()

    def _run_rank(self, slot):
        """Run a rank, and record its exit status as a shell shows it."""
        try:
            code = shell_status(self.start_rank(slot).wait())
        except BaseException:
            self.end_processes()
            raise
        self.exit_codes[slot.rank] = code
        self.record("rank_exit", rank=slot.rank, code=code, asked=self.asked)
        if code:
            if code > 128 and not self.stopping.is_set():
                self.waits(self.running())  # a killed rank can't say why: record where the others were
            self.end_processes()

    def _state(self):
        if self.reason:
            return "failed" if self.reason in ("timeout", "launch") else "stopped"
        return "failed" if any(self.exit_codes.values()) else "done"

    # ---------------------------------------------------------------- overrides

    def kill(self):
        self.asked = "SIGKILL"
        processes.end(self.run_id, mark="DDL_RANKS_OF")

    def diagnose(self):
        ranks = self.running()
        waiting = self.waits(ranks)
        missing = [rank for rank, waits_for_others in zip(ranks, waiting, strict=True) if not waits_for_others]
        return {"missing": missing if any(waiting) else []}

    def running(self) -> Sequence[int]:
        """Return the numbers of the ranks' files."""
        return range(len(self.slots))


def main(kind: type[OneHost] = OneHost) -> None:
    """Be the supervisor of the run that this process's command line names."""
    options = RunOptions.of_process()
    import_libraries_only()
    keep_writing()
    sys.exit(kind(options).run())


if __name__ == "__main__":
    run_and_exit(main)
