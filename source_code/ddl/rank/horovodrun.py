"""Horovod's own ``horovodrun``, looked after: ``python -m ddl.rank.horovodrun [OPTIONS] COMMAND``.

The options and the work are horovodrun's. Around it, this module

- answers horovodrun's question "was Gloo built?" from a cache, where horovodrun starts a Python
  that imports TensorFlow, on every launch, to ask;
- keeps the environment off the command lines that it builds, where ``ps`` shows it (its local
  workers inherit it anyway);
- records when each rank ended and how, because a rank that was killed can't say so itself;
- ends the run at its time limit (``--timeout-s``), when the notebook or terminal that started it
  is gone, or when a rank has failed and the others don't follow; and leaves no process behind.

Pasted into a terminal, outside a run, it first becomes one: a new run folder, followed as text.
"""

import json
import os
import signal
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from ddl.launcher import processes
from ddl.rank import cluster, rendezvous
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import DamagedFile, read_json, write_json
from ddl.records.log import keep_writing
from ddl.records.paths import cache_dir

__all__ = ["built_with", "main"]

# After a rank has failed, horovodrun ends the others; those that don't go are killed.
FAILURE_GRACE_S = 1.0


def main():
    arguments = sys.argv[1:]
    if "DDL_RUN_DIR" not in os.environ:
        from ddl.launcher.run import run_pasted

        sys.exit(run_pasted(arguments))
    keep_writing()
    supervisor = Supervisor(os.environ["DDL_RUN_ID"], Path(os.environ["DDL_RUN_DIR"]))
    if arguments[:1] == ["--timeout-s"]:
        supervisor.limit(float(arguments[1]))
        arguments = arguments[2:]
    sys.exit(supervisor.run(arguments))


class Supervisor:
    """Runs horovodrun in this process and watches over it. One a process."""

    def __init__(self, run_id, folder):
        self.run_id = run_id
        self.folder = RunFolder(folder)
        self.exit_codes = {}
        self.ended_because = None
        self.stopping = threading.Event()
        os.environ["DDL_RANKS_OF"] = run_id  # what is started from here on inherits it
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        if "DDL_LIFELINE" in os.environ:
            del os.environ["DDL_LIFELINE"]
            self._watch(self._await_launcher, processes.take_lifeline())

    def record(self, event, **fields):
        record = {"event": event, "time": time.time(), **fields}
        try:
            self.folder.append(self.folder.launcher, record)
        except StorageError as error:  # the ranks go on; who follows them sees how this ends
            print(f"{error}: {json.dumps(record)}", file=sys.stderr, flush=True)

    def limit(self, timeout_s):
        """End the run `timeout_s` seconds from now."""
        self._watch(self._await_timeout, timeout_s)

    def run(self, arguments):
        """Run horovodrun with `arguments`; return the exit status for the whole run."""
        self.record("launched", pid=os.getpid())
        job = read_json(self.folder.job)
        roles = cluster.roles(job["cluster"], job["workers"], job["parameter_servers"])
        if roles:
            self._watch(self._await_cluster, roles)
        try:
            self._horovodrun(arguments)
        except Exception as error:
            # The ranks' own errors are in their records; this is about the launch itself.
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            if not self.exit_codes:
                self.ended_because = self.ended_because or {
                    "state": "failed",
                    "reason": "launch",
                    "message": str(error),
                }
        # What is left are children that a rank left behind. (This process's own child is
        # multiprocessing's tracker, which ends with it.)
        own = {child.pid for child in psutil.Process().children()}
        processes.end(self.run_id, besides=own, mark="DDL_RANKS_OF")
        failed = any(self.exit_codes.values())
        end = self.ended_because or {"state": "failed" if failed else "done"}
        self.record("ended", **end)
        self.folder.give_up_reserve()
        return 0 if end["state"] == "done" else 1

    def _horovodrun(self, arguments):
        from horovod.runner import gloo_run, launch

        rendezvous.widen()
        launch.gloo_built = lambda verbose=False: built_with()["gloo"]
        # Options of horovodrun travel as HOROVOD_* and must be passed on; the rest is inherited.
        gloo_run.env_util.is_exportable = lambda name: name.startswith("HOROVOD_")
        gloo_run.register_shutdown_event = lambda: self.stopping
        gloo_run._exec_command_fn = self._recording(gloo_run._exec_command_fn)
        # Its parser looks at every word, the script's own too, and takes "--m" for the beginning
        # of one of several options of its own. So it gets to see one word in the command's place.
        at = arguments.index("ddl.rank") - 2
        parse = launch.parse_args

        def parse_options():
            options = parse()
            options.command = arguments[at:]
            return options

        launch.parse_args = parse_options
        sys.argv = ["horovodrun", *arguments[:at], "COMMAND"]
        launch.run_commandline()

    def _recording(self, exec_command_fn):
        """Wrap horovodrun's way to run one rank: note how it ended, and end the others."""

        def wrapped(settings):
            exec_command = exec_command_fn(settings)

            def run_rank(command, slot, events):
                code, ended = exec_command(command, slot, events)
                self.exit_codes[slot.rank] = code
                self.record("rank_exit", rank=slot.rank, code=code)
                if code:
                    if code > 128 and not self.stopping.is_set():
                        self._waiting()  # it can't say why itself: see where the others were
                    self._watch(self._end_stragglers)
                return code, ended

            return run_rank

        return wrapped

    def _end_stragglers(self):
        time.sleep(FAILURE_GRACE_S)
        processes.end(self.run_id, mark="DDL_RANKS_OF")

    # -------------------------------------------------------- reasons to end early

    def _asked_to_stop(self, number, frame):
        self._stop({"state": "stopped", "reason": signal.Signals(number).name})

    def _await_launcher(self, lifeline):
        os.read(lifeline, 1)  # returns when the other end is closed: the launcher is gone
        if not self.ended_because:
            self._stop({"state": "stopped", "reason": "launcher gone"})

    def _await_timeout(self, timeout_s):
        time.sleep(timeout_s)
        waiting = self._waiting()
        missing = [rank for rank, waits in waiting.items() if not waits]
        self._stop(
            {
                "state": "failed",
                "reason": "timeout",
                "timeout_s": timeout_s,
                "missing": missing if any(waiting.values()) else [],
            }
        )

    def _await_cluster(self, roles):
        if missing := cluster.first_absent(self.folder, roles):
            gone = [rank for rank in missing if rank in self.exit_codes]
            self._waiting()  # leaves their stacks
            self._stop({"state": "failed", "reason": "absent", "missing": missing, "gone": gone})

    def _stop(self, reason):
        if self.ended_because is None:
            self.ended_because = reason
        self.stopping.set()
        self._watch(self._end_stragglers)

    def _waiting(self):
        """Ask every rank at once whether it waits for others; return the answers, by rank."""
        job = read_json(self.folder.job)
        alive = processes.of_run(self.run_id)
        there = [read_json(self.folder.rank(rank)) for rank in range(job["processes"])]
        with ThreadPoolExecutor(len(there)) as pool:
            return dict(
                enumerate(
                    pool.map(
                        lambda said: (
                            bool(said)
                            and said["pid"] in alive
                            and processes.waits(said["pid"], self.folder.stack(said["rank"]))
                        ),
                        there,
                    )
                )
            )

    def _watch(self, function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()


def built_with():
    """What this Horovod was built with: ``{"gloo": bool, "mpi": bool, "nccl": bool, ...}``.

    Asking means importing TensorFlow in another process, so the answer is kept, for as long as
    Horovod's library is the same file. Where it cannot be kept, it is asked for each time.
    """
    from importlib.util import find_spec

    library = sorted(Path(find_spec("horovod").origin).parent.glob("tensorflow/mpi_lib*.so"))
    if not library:
        raise RuntimeError(
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
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if asked.returncode:
        raise RuntimeError(f"Horovod cannot be loaded: {asked.stderr.strip().splitlines()[-1]}")
    return json.loads(asked.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
