"""All ranks of one host: ``python -m ddl.rank.one_host --processes N [--timeout-s S] COMMAND``.

Horovod's launcher brings the ranks together (``gloo_run.launch_gloo``, as in ``horovodrun --gloo``), and takes from
here what starts each of them. Around it, this module records when and how each rank ended, because a killed rank cannot
say so itself, and ends the run early when there is a reason to (`ddl.rank.supervisor`).
"""

import json
import os
import shlex
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from pathlib import Path

from ddl.errors import CourseError
from ddl.launcher import processes
from ddl.launcher.commands import GLOO_TIMEOUT_S, OneHostCommand
from ddl.rank import rendezvous
from ddl.rank.ending import run_and_end
from ddl.rank.queue import Ticket
from ddl.rank.start import start
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
    """Runs Horovod's launcher in this process, and supervises its ranks."""

    def __init__(self):
        super().__init__()
        self.exit_codes: dict[int, int] = {}
        self._asked = ""  # by which signal the ranks were asked to end
        os.environ["DDL_RANKS_OF"] = self.run_id  # for what is started from here on

    def run(self, command: OneHostCommand) -> int:
        """Run all ranks; return the exit status of the whole run."""
        self.record("launched", pid=os.getpid())
        ticket = Ticket.of(self.folder)
        if ticket:
            self._await(ticket)
        if command.timeout_s:
            self.limit(command.timeout_s, time.time())
        self.watch_cluster()
        self.watch_progress(range(command.processes))
        try:
            if not self.stopping.is_set():
                self._launch(command)
        except Exception as error:
            # The ranks' own errors are in their records; this is about the launch itself.
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if not self.exit_codes and self.reason is None:
                self.reason, self.details = "launch", {"message": str(error)}
        # What is left are children that a rank left behind.
        processes.end(self.run_id, mark="DDL_RANKS_OF")
        if ticket:
            ticket.give_back()
        state = self._state()
        self.record("ended", state=state, **({"reason": self.reason, **self.details} if self.reason else {}))
        self.folder.free_reserved_space()
        return 0 if state == "done" else 1

    def _launch(self, command):
        if not built_with()["gloo"]:
            raise BrokenHorovod("this Horovod was built without Gloo, through which its ranks meet: run `make setup`")
        from horovod.runner.common.util.settings import Settings
        from horovod.runner.gloo_run import launch_gloo

        rendezvous.enlarge_backlog()
        size = command.processes
        settings = Settings(hosts=f"localhost:{size}", num_proc=size, verbose=0)

        def start_rank(line, slot, events):
            """Horovod's line begins with its variables: ``env NAME=VALUE ... COMMAND``."""
            assigned = shlex.split(line)[1 : -len(command.command)]
            return self.run_rank(command.command, dict(word.split("=", 1) for word in assigned), slot.rank), time.time()

        # The variables for ranks that it puts on a line are read there and not run: `ps` shows command lines.
        timeout = {"HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_S)}
        launch_gloo(command.command, start_rank, settings, ["lo"], timeout, "127.0.0.1")

    def _await(self, ticket):
        """Wait for cores that are shared, and record what for; a reason to stop ends that, too."""
        recorded = ""
        while not self.stopping.is_set() and (waiting := ticket.take()):
            if waiting != recorded:
                self.folder.write_text(self.folder.waiting, recorded := waiting)
            self.stopping.wait(LOOK_EVERY_S)
        if recorded:
            self.folder.write_json(self.folder.turn, {"time": time.time()})
            self.folder.waiting.unlink(missing_ok=True)

    def _state(self):
        if self.reason:
            return "failed" if self.reason in ("timeout", "absent", "launch") else "stopped"
        return "failed" if any(self.exit_codes.values()) else "done"

    def run_rank(self, words: Sequence[str], variables: dict[str, str], rank: int) -> int:
        """Run a rank; return its exit status, as a shell shows it, after it is recorded.

        (Horovod puts a Python of its own in between, which takes a good part of a start, and passes output on.)
        """
        process = start(words, {**os.environ, **variables}, self.stopping)
        self.follow(process)
        code = self.exit_codes[rank] = shell_status(process.wait())
        self.record("rank_exit", rank=rank, code=code, asked=self._asked)
        if code:
            if code > 128 and not self.stopping.is_set():
                self._waiting()  # a killed rank cannot say why: keep where the others were
            self.end_processes()
        return code

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
        waiting = self._waiting()
        if reason != "timeout":
            return {}
        missing = [rank for rank, waits_for_others in waiting.items() if not waits_for_others]
        return {"missing": missing if any(waiting.values()) else []}

    def _waiting(self):
        """Ask every rank at once whether it waits for others; return the answers, by rank."""
        return dict(enumerate(self.waits(list(range(read_json(self.folder.job)["processes"])))))


def built_with() -> dict[str, bool]:
    """What this Horovod was built with: ``{"gloo": bool, "mpi": bool, "nccl": bool, ...}``.

    Asking means importing TensorFlow in another process, so the answer is kept as long as Horovod's
    library is the same file.
    """
    from importlib.util import find_spec

    spec = find_spec("horovod")
    if not spec:
        raise BrokenHorovod("Horovod is not installed: run `make setup`")
    library = sorted(Path(spec.origin).parent.glob("tensorflow/mpi_lib*.so"))
    if not library:
        raise BrokenHorovod(
            "this Horovod was built without TensorFlow: remove it and its cached wheel, then run `make setup` again"
        )
    stat = library[0].stat()
    key = f"{library[0]}:{stat.st_size}:{stat.st_mtime_ns}"
    # A file for each environment: two that are used in turn keep both answers.
    path = cache_dir() / f"horovod-build-{zlib.crc32(str(library[0]).encode()):08x}.json"
    try:
        known = read_json(path) or {}
    except DamagedFile:
        known = {}
    if known.get("key") != key or not isinstance(known.get("gloo"), bool):
        known = {"key": key, **_ask_build()}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, known)
        except OSError as error:
            print(f"the answer to what Horovod was built with is not kept: {error}", file=sys.stderr, flush=True)
    return known


def _ask_build():
    code = (
        "import json, horovod.tensorflow as hvd; print(json.dumps({n: bool(getattr(hvd, "
        "n + '_built')()) for n in ('gloo', 'mpi', 'nccl', 'cuda')}))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if answer.returncode:
        raise BrokenHorovod(f"Horovod cannot be loaded: {answer.stderr.strip().splitlines()[-1]}")
    return json.loads(answer.stdout.splitlines()[-1])


if __name__ == "__main__":
    run_and_end(main)
