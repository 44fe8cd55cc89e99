"""Horovod's own ``horovodrun``, supervised: what ``python -m ddl.rank.horovodrun`` does.

The options and the work are horovodrun's; `adapted` lists what is changed in it. Around it, this
module starts the ranks, records when and how each ended, because a killed rank cannot say so itself, and
ends the run early when there is a reason to (`ddl.rank.supervisor`).

Pasted into a terminal, outside a run, it first becomes one: a new run folder, followed as text.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ddl.errors import CourseError
from ddl.launcher import processes
from ddl.launcher.commands import HorovodrunCommand
from ddl.rank import rendezvous
from ddl.rank.ending import end_with_parent
from ddl.rank.supervisor import Supervisor, shell_status, waits
from ddl.rank.turn import Turn
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.log import keep_writing
from ddl.records.paths import cache_dir

__all__ = ["BrokenHorovod", "UnknownHorovod", "adapted", "built_with", "main"]

KNOWN_VERSIONS = ("0.28.1",)
TURN_S = 0.3  # between two looks at the queue


class BrokenHorovod(CourseError, RuntimeError):
    """Horovod is not installed, cannot be loaded, or does not know TensorFlow."""


class UnknownHorovod(CourseError, RuntimeError):
    """This Horovod's launcher may not be what `adapted` changes."""


def main():
    if RunFolder.here() is None:
        from ddl.launcher.run import run_pasted

        sys.exit(run_pasted(sys.argv[1:]))
    command = HorovodrunCommand.of_this_process()
    keep_writing()
    sys.exit(Horovodrun().run(command))


class Horovodrun(Supervisor):
    """Runs horovodrun in this process, and supervises its ranks."""

    def __init__(self):
        super().__init__()
        self.exit_codes: dict[int, int] = {}
        self._ranks: list[subprocess.Popen] = []
        self._starting = threading.Lock()
        self._asked = ""  # by which signal the ranks were asked to end
        os.environ["DDL_RANKS_OF"] = self.run_id  # for what is started from here on

    def run(self, command: HorovodrunCommand) -> int:
        """Run horovodrun; return the exit status of the whole run."""
        self.record("launched", pid=os.getpid())
        turn = Turn.of(self.folder)
        if turn:
            self._await(turn)
        if command.timeout_s:
            self.limit(command.timeout_s, time.time())
        self.watch_cluster()
        try:
            if not self.stopping.is_set():
                with adapted(self, command) as launch:
                    launch.run_commandline()
        except Exception as error:
            # The ranks' own errors are in their records; this is about the launch itself.
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if not self.exit_codes and self.reason is None:
                self.reason, self.details = "launch", {"message": str(error)}
        # What is left are children that a rank left behind.
        processes.end(self.run_id, mark="DDL_RANKS_OF")
        if turn:
            turn.leave()
        state = self._state()
        self.record("ended", state=state, **({"reason": self.reason, **self.details} if self.reason else {}))
        self.folder.give_up_reserve()
        return 0 if state == "done" else 1

    def _await(self, turn):
        """Wait for a turn on shared cores, and record what for; a reason to stop ends that, too."""
        said = ""
        while not self.stopping.is_set() and (waiting := turn.take()):
            if waiting != said:
                self.folder.write_text(self.folder.waiting, said := waiting)
            self.stopping.wait(TURN_S)
        if said:
            self.folder.write_json(self.folder.turn, {"time": time.time()})
            self.folder.waiting.unlink(missing_ok=True)

    def _state(self):
        if self.reason:
            return "failed" if self.reason in ("timeout", "absent", "launch") else "stopped"
        return "failed" if any(self.exit_codes.values()) else "done"

    def run_rank(self, line: str, rank: int) -> int:
        """Run a rank's shell line; return its exit status, as a shell shows it, after it is recorded.

        The rank is this process's own child, and is killed if this process is. (Horovod puts a Python of its own in
        between, which takes a good part of a start, and passes output on.)
        """
        with self._starting:
            late = self.stopping.is_set() or any(self.exit_codes.values())
            process = subprocess.Popen(f"exec {line}", shell=True, start_new_session=True, preexec_fn=end_with_parent)
            self._ranks.append(process)
        if late:  # the others have been asked already
            process.terminate()
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
        with self._starting:
            for process in self._ranks:
                process.terminate()

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
        size = read_json(self.folder.job)["processes"]
        alive = processes.of_run(self.run_id)

        def rank_waits(rank):
            record = read_json(self.folder.rank(rank))
            return bool(record) and record["pid"] in alive and waits(record["pid"], self.folder.stack(rank))

        with ThreadPoolExecutor(size) as pool:
            return dict(enumerate(pool.map(rank_waits, range(size))))


@contextlib.contextmanager
def adapted(supervisor: Horovodrun, command: HorovodrunCommand):
    """Give Horovod's launcher, changed as a supervised run needs it; it is put back at the end.

    Raises
    ------
    UnknownHorovod
        For a version of Horovod that these changes were not made for.
    """
    import horovod

    if horovod.__version__ not in KNOWN_VERSIONS:
        raise UnknownHorovod(
            f"Horovod {horovod.__version__} is installed, and its launcher is changed by {__file__}, which knows "
            f"{' and '.join(KNOWN_VERSIONS)} only: install that version (`make setup` does)"
        )
    from horovod.runner import gloo_run, launch
    from horovod.runner.http.http_server import RendezvousHTTPServer

    original_parse = launch.parse_args

    def parse_args():
        options = original_parse()
        options.command = list(command.command)
        return options

    def exec_command_fn(settings):
        return lambda line, slot, events: (supervisor.run_rank(line, slot.rank), time.time())

    with rendezvous.replaced(
        # All ranks call at once.
        (RendezvousHTTPServer, "request_queue_size", rendezvous.BACKLOG),
        # To ask whether Gloo was built, it would start a Python that imports TensorFlow.
        (launch, "gloo_built", lambda verbose=False: built_with()["gloo"]),
        # `ps` shows command lines. Ranks inherit the environment, except for what the options set.
        (gloo_run.env_util, "is_exportable", lambda name: name.startswith("HOROVOD_")),
        # The supervisor handles the signals, and has more reasons to stop.
        (gloo_run, "register_shutdown_event", lambda: supervisor.stopping),
        # It starts ranks slowly, and keeps to itself how each ended. All are on this host.
        (gloo_run, "_exec_command_fn", exec_command_fn),
        # Its parser takes the script's own "--m" for the beginning of an option: it sees one word
        # in place of the command.
        (launch, "parse_args", parse_args),
        (sys, "argv", ["horovodrun", *command.own_options, "COMMAND"]),
    ):
        yield launch


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
    import subprocess

    code = (
        "import json, horovod.tensorflow as hvd; print(json.dumps({n: bool(getattr(hvd, "
        "n + '_built')()) for n in ('gloo', 'mpi', 'nccl', 'cuda')}))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if answer.returncode:
        raise BrokenHorovod(f"Horovod cannot be loaded: {answer.stderr.strip().splitlines()[-1]}")
    return json.loads(answer.stdout.splitlines()[-1])
