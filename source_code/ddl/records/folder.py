"""A run's folder: the path of each file in it, and writing them.

Every file has exactly one writer, so nothing needs a lock. Every rank imports this module before its script, so it
needs the standard library only.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.records import files
from ddl.records.jsonfiles import FULL, NUMBER, DamagedFile, Schema, append_json_line, read_json, write_json
from ddl.records.paths import runs_dir


class _File:
    """A file in a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", owner: type) -> Path:
        return folder.path / self._name


class _RankFile(_File):
    """A file for each rank: `folder.log(rank)`."""

    def __get__(self, folder: "RunFolder", owner: type) -> Callable[[int | str], Path]:  # type: ignore[override]
        return lambda rank: folder.path / self._name.format(rank)


@dataclass(frozen=True)
class RunFolder:
    """The paths inside one run's folder, grouped by writer."""

    path: Path

    # The launcher
    job = _File("job.json")  # before anything starts
    command = _File("command.sh")  # the printed line, to run again
    launcher = _File("launcher.jsonl")  # events: launched, rank_exit, restarted, ended
    launcher_log = _File("launcher.log")
    discovery = _File("discover_hosts.sh")  # of an elastic run; the user may edit it
    waiting = _File("waiting")  # if cores are shared: what the run waits for
    turn = _File("turn.json")  # and when it got them
    # The kernel that shows the run
    shown = _File("shown.json")  # in which cell of which notebook
    watched = _File("watched")  # touched when a page asks the notebook server for the run
    # The notebook that uses live ranks
    requests = _File("requests.jsonl")  # its cells
    values = _RankFile("values-{}.pickle")  # variables on their way, by request, or by request and rank
    # The task of rank 0, on several nodes
    rendezvous = _File("rendezvous.json")  # the address at which ranks connect
    agreed = _File("agreed.json")  # whether the run is restarted
    # Each rank
    rank = _RankFile("rank-{}.json")  # as it starts: host, process id, threads; the end of its script
    log = _RankFile("rank-{}.log")  # everything that it prints
    error = _RankFile("error-{}.json")  # the exception that ended it
    stack = _RankFile("stack-{}.txt")  # its stack, when asked
    answers = _RankFile("answers-{}.jsonl")  # of a live rank to the requests
    step_log = _RankFile("steps-{}.jsonl")  # what its script recorded of each step
    checksums = _RankFile("checksums-{}.jsonl")  # of its arrays after each step (`Recorder.checksums`)
    # The supervisor of a rank
    stalled = _RankFile("stalled-{}.json")  # in a silent run: whether it waits for others
    straggler = _File("straggler.json")  # on one host: the rank that the others wait for
    exit = _RankFile("exit-{}.json")  # on several nodes: how it ended
    ready = _RankFile("ready-{}.json")  # there, if the run may be restarted: that it has ended
    # Rank 0's script
    events = _File("events.jsonl")  # as it goes (`Recorder`)
    result = _File("result.json")  # at the end (`Recorder`)
    weights = _File("weights.npz")  # at the end, if the script keeps the model's weights
    tensorboard = _File("tensorboard")  # logs for TensorBoard
    requeue = _File("requeue")  # it stopped early with a checkpoint to resume from

    @classmethod
    def here(cls) -> "RunFolder | None":
        """Return the folder of the run that this process belongs to (``DDL_RUN_DIR``); None outside a run."""
        path = os.environ.get("DDL_RUN_DIR")
        return cls(Path(path)) if path else None

    def last_change(self) -> float:
        """Return when a rank last wrote a file by itself, in seconds since the epoch."""
        latest = 0.0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.startswith(("stack-", "stalled-", "straggler", "watched")):  # not written by ranks
                    latest = max(latest, entry.stat().st_mtime)
        return latest

    def output_bytes(self, ranks: Iterable[int]) -> int:
        """Return the bytes that the script of these ranks has printed or recorded."""
        total = 0
        for path in (self.events, *map(self.log, ranks)):
            with contextlib.suppress(OSError):
                total += path.stat().st_size
        return total

    def forget_start(self, ranks: int) -> None:
        """Remove the records of the first `ranks` ranks, which have ended, but not their logs."""
        for rank in range(ranks):
            for file in (self.rank, self.error, self.stack, self.stalled, self.exit):
                file(rank).unlink(missing_ok=True)
        self.straggler.unlink(missing_ok=True)

    # ------------------------------------------------------------ writing
    # Each method raises `StorageError` if it fails.

    def write_text(self, path: Path, text: str | bytes) -> None:
        """Write one file of this folder whole or not at all."""
        self._keep(path, lambda: files.write(path, text))

    def write_json(self, path: Path, mapping: Mapping) -> None:
        """Write one JSON file of this folder whole or not at all."""
        self._keep(path, lambda: write_json(path, mapping))

    def write_arrays(self, path: Path, *arrays: Any, durable: bool = False, **named: Any) -> None:
        """Write one ``.npz`` file of this folder whole or not at all, as `numpy.savez` and `files.replacing` do."""
        import numpy

        def write() -> None:
            with files.replacing(path, durable) as file:
                numpy.savez(file, *arrays, **named)

        self._keep(path, write)

    def append(self, path: Path, mapping: Mapping) -> None:
        """Append one line to a JSON-lines file of this folder."""
        self._keep(path, lambda: append_json_line(path, mapping))

    def record(self, path: Path, mapping: Mapping) -> None:
        """Write or append a record; if that fails, print it and go on."""
        try:
            (self.append if path.suffix == ".jsonl" else self.write_json)(path, mapping)
        except StorageError as error:
            print(f"{error}: {json.dumps(mapping)}", file=sys.stderr, flush=True)

    def _keep(self, path: Path, write: Callable[[], object]) -> None:
        try:
            write()
        except OSError as error:
            raise StorageError(error, path) from error


STARTERS = (
    "/_pytest/python.py",
    "ddl/pytest_ranks.py",
    "ddl/start/worker.py",
    "ddl/live/loop.py",
)  # call a script or a test
STACK_SIGNAL = signal.SIGRTMAX - 3  # makes a rank write its stack; SIGUSR1 is left to scripts


class StorageError(CourseError, OSError):
    """A file of a run cannot be written, read or made; the message names it, the reason and a remedy."""

    def __init__(self, error: OSError, path: str | Path, doing: str = "written") -> None:
        advice = "Free some space there, or set" if error.errno in FULL else "Set"
        super().__init__(
            f"{path} cannot be {doing}: {error.strerror or error}. {advice} DDL_RUNS_DIR to another folder that you "
            f"can write to (runs are kept in {runs_dir()})"
        )
        self.errno = error.errno


JOB: Schema = {
    "id": str,
    "created": NUMBER,
    "workers": int,
    **dict.fromkeys(("ranks?", "processes?", "max_restarts?", "parameter_servers?"), int),
    **dict.fromkeys(("name?", "script?", "cwd?", "cluster?", "shell_line?", "where?"), str),
    "args?": list,
    "env?": list,
    "site?": dict,
}
MOST_RANKS = 10_000  # more than anybody has, and few enough to look for their files


def read_job(folder: RunFolder) -> dict | None:
    """Return a run's ``job.json``; None if it does not exist, DamagedFile if it is not one."""
    job = read_json(folder.job, JOB)
    if job and not 1 <= ranks_of(job) <= MOST_RANKS:
        raise DamagedFile(f"{folder.job} is damaged: a run has 1 to {MOST_RANKS:,} ranks, got {ranks_of(job):,}")
    return job


def ranks_of(job: Mapping) -> int:
    """Return the number of ranks of a run, from its ``job.json``; old records have only the workers."""
    return job.get("ranks") or job.get("processes") or job.get("workers", 0)  # the second in records of version 0.2


def start_of(folder: RunFolder) -> float | None:
    """Return when a run began, in seconds since the epoch; None if it has not.

    That is the launch or, if the run had to wait, when it got its cores or its job of Slurm began.
    """
    job = read_json(folder.job) or {}
    if job.get("site", {}).get("scheduler") == "slurm":
        return (read_json(folder.rank(0)) or {}).get("started")
    return (read_json(folder.turn) or {}).get("time", job.get("created"))


def stack_of(path: str | Path) -> str:
    """Return the main thread's frames in a rank's stack dump, innermost first, up to the script's or test's own.

    Return an empty string without a dump.
    """
    try:
        threads = files.read(path).decode(errors="replace").split("\n\n")
    except OSError:
        return ""
    main = next((thread for thread in reversed(threads) if "ddl/start/worker.py" in thread), "")
    frames = main.splitlines()[1:]
    script_end = next((i for i, line in enumerate(frames) if any(own in line for own in STARTERS)), len(frames))
    return "\n".join(frames[:script_end])
