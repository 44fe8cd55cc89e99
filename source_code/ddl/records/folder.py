"""What a run leaves behind: its folder, and the records that ranks write into it.

Every file of a run's folder has exactly one writer, so nothing needs a lock. Every rank imports this before its script,
so it needs the standard library only.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.records import files
from ddl.records.jsonfiles import FULL, append_json_line, read_json, write_json
from ddl.records.paths import runs_dir


class _File:
    """A file of that name in a run's folder."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, folder: "RunFolder", owner: type) -> Path:
        return folder.path / self._name


class _RankFile(_File):
    """One for each rank: `folder.log(rank)`."""

    def __get__(self, folder: "RunFolder", owner: type) -> Callable[[int], Path]:  # type: ignore[override]
        return lambda rank: folder.path / self._name.format(rank)


@dataclass(frozen=True)
class RunFolder:
    """The paths inside one run's folder, each with its only writer.

    Where hosts are made on one machine, there is also `hosts` with their names and addresses.
    """

    path: Path

    # The launcher
    job = _File("job.json")  # before anything starts
    command = _File("command.sh")  # the printed line, to run again
    launcher = _File("launcher.jsonl")  # launched, exit of each rank, restarted, end of the run
    launcher_log = _File("launcher.log")
    discovery = _File("discover_hosts.sh")  # of an elastic run that was given none: its reader edits it
    waiting = _File("waiting")  # where cores are shared: what it waits for
    turn = _File("turn.json")  # and when its turn came
    reserve = _File("reserve")  # room for the last records when the disk is full; gone at the end
    # The kernel that shows the run
    shown = _File("shown.json")  # in which cell of which notebook
    # The task of rank 0, on several nodes
    rendezvous = _File("rendezvous.json")  # where the ranks meet
    # Each rank
    rank = _RankFile("rank-{}.json")  # as it starts: host, process id, threads; the end of its script
    log = _RankFile("rank-{}.log")  # everything that it prints
    lost = _RankFile("lost-{}")  # when output of it found no room on the disk: an empty file
    error = _RankFile("error-{}.json")  # when an exception ends it
    stack = _RankFile("stack-{}.txt")  # where it is, when asked
    witness = _RankFile("witness-{}.jsonl")  # its script, where it records what each rank saw, step by step
    # Who looks after a rank
    stalled = _RankFile("stalled-{}.json")  # when some seconds have brought nothing new: whether it waits for others
    straggler = _File("straggler.json")  # on one host, while the run goes on: which rank the others wait for
    exit = _RankFile("exit-{}.json")  # on several nodes: how it ended
    ready = _RankFile("ready-{}.json")  # there, where runs start again: that it has ended, and its task waits
    agreed = _File("agreed.json")  # and who starts again, by the first of these tasks
    # Rank 0's script
    events = _File("events.jsonl")  # as it goes (`Recorder`)
    result = _File("result.json")  # at the end (`Recorder`)
    weights = _File("weights.npz")  # at the end, where it keeps the model's weights; `checkpoint.npz` when asked to
    timeline = _File("timeline.json")  # Horovod, where its script asks for that: what it did and when
    tensorboard = _File("tensorboard")  # logs for TensorBoard
    requeue = _File("requeue")  # it stopped early with a checkpoint to go on from

    @classmethod
    def here(cls) -> "RunFolder | None":
        """Return the folder of the run that this process belongs to (``DDL_RUN_DIR``); None outside a run."""
        path = os.environ.get("DDL_RUN_DIR")
        return cls(Path(path)) if path else None

    def last_change(self) -> float:
        """When a rank last wrote something of its own accord, in seconds since the epoch."""
        latest = 0.0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.startswith(("stack-", "stalled-", "straggler")):  # what a look at the ranks leaves
                    latest = max(latest, entry.stat().st_mtime)
        return latest

    def has_output(self, ranks: Iterable[int]) -> bool:
        """Whether the script of one of these ranks has printed or recorded something."""
        for path in (self.events, *map(self.log, ranks)):
            with contextlib.suppress(OSError):
                if path.stat().st_size:
                    return True
        return False

    def forget_start(self, ranks: int) -> None:
        """Remove what is known of so many ranks' processes, which have ended; their logs stay."""
        for rank in range(ranks):
            for file in (self.rank, self.error, self.stack, self.stalled, self.exit):
                file(rank).unlink(missing_ok=True)
        self.straggler.unlink(missing_ok=True)

    # ------------------------------------------------------------ writing
    # All of it raises `StorageError`; where the disk is full, once `reserve` has been given up.

    def write_text(self, path: Path, text: str) -> None:
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

    def reserve_space(self) -> None:
        """Keep some room, as far as there is any, for the last records of a run on a full disk."""
        with contextlib.suppress(OSError):
            self.reserve.write_bytes(bytes(RESERVE_BYTES))

    def free_reserved_space(self) -> bool:
        """Free the room that `reserve_space` keeps; return whether there was any."""
        try:
            self.reserve.unlink()
        except OSError:
            return False
        return True

    def _keep(self, path: Path, write: Callable[[], object]) -> None:
        try:
            try:
                write()
            except OSError as error:
                if error.errno not in FULL or not self.free_reserved_space():
                    raise
                write()
                self.reserve_space()  # what is left of it
        except OSError as error:
            raise StorageError(error, path) from error


RESERVE_BYTES = 64 * 1024
STACK_SIGNAL = signal.SIGRTMAX - 3  # a rank answers with `stack-<k>.txt`; SIGUSR1 may be its script's own


class StorageError(CourseError, OSError):
    """A run's folder cannot be written (or read): where, why, and what to do.

    `error` is what the system said, `path` what was to be written, `doing` what could not be done to it.
    """

    def __init__(self, error: OSError, path: str | Path, doing: str = "written") -> None:
        super().__init__(
            f"{path} cannot be {doing}: {error.strerror or error}. {_way_out(error)} (runs are kept in {runs_dir()})"
        )
        self.errno = error.errno


def _way_out(error: OSError) -> str:
    if error.errno in FULL:
        return "Free some space there, or set DDL_RUNS_DIR to a folder on another disk"
    if error.errno == errno.EROFS:
        return "That file system is read-only: set DDL_RUNS_DIR to a folder that you may write"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "A folder is needed there: move that file away, or set DDL_RUNS_DIR to another folder"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "You have no permission: set DDL_RUNS_DIR to a folder of your own"
    return "Set DDL_RUNS_DIR to a folder that can be used"


def processes_of(job: Mapping) -> int:
    """How many ranks a run has, from its ``job.json``; one recorded long ago says its workers."""
    return job.get("processes", job.get("workers", 0))


def start_of(folder: RunFolder) -> float | None:
    """When a run began, in seconds since the epoch: its launch, its turn, or after Slurm's queue its first rank.

    None where nothing has begun.
    """
    job = read_json(folder.job) or {}
    if job.get("site", {}).get("scheduler") == "slurm":
        return (read_json(folder.rank(0)) or {}).get("started")
    return (read_json(folder.turn) or {}).get("time", job.get("created"))


def stack_of(path: str | Path) -> str:
    """Return the main thread's frames in a rank's stack dump, from the script's own down.

    The innermost frame comes first; empty where the rank left no dump.
    """
    try:
        threads = Path(path).read_text(errors="replace").split("\n\n")
    except OSError:
        return ""
    main = next((thread for thread in reversed(threads) if "ddl/rank/worker.py" in thread), "")
    frames = main.splitlines()[1:]
    script_end = next((i for i, line in enumerate(frames) if "ddl/rank/worker.py" in line), len(frames))
    return "\n".join(frames[:script_end])
