"""What a run leaves behind: its folder, and the records that ranks write into it.

Every file of a run folder has exactly one writer, so nothing needs a lock:

=================  ===========================================================
job.json           the launcher, before anything starts
command.sh         the launcher: the printed line, to run again
shown.json         the kernel that shows the run: in which cell of which notebook
launcher.jsonl     the launcher: launched, exit of each rank, end of the run
rank-<k>.json      rank k as it starts: host, process id, threads; in a cluster its address; and
                   when its script came to its end
rank-<k>.log       rank k: everything that it prints
lost-<k>           rank k, when output of it found no room on the disk: an empty file
error-<k>.json     rank k, when an exception ends it
stalled-<k>.json   who looks after rank k, when a minute has brought nothing new: whether it waits for others
exit-<k>.json      the task that looks after rank k, on several nodes: how it ended
hosts              where hosts are made on one machine: their names and addresses
rendezvous.json    the task of rank 0, on several nodes: where the ranks meet
events.jsonl       rank 0's training script, as it goes (`Recorder`)
result.json        rank 0's training script, at the end (`Recorder`)
waiting, turn.json the launcher, where cores are shared: what it waits for; when its turn came
reserve            the launcher: room for the last records when the disk is full; gone at the end
checkpoint.npz     rank 0's training script, when asked to
weights.npz        rank 0's training script, where it keeps the model's weights at the end
timeline.json      Horovod in rank 0, where its script asks for that: what it did and when
tensorboard/       rank 0's training script, where it keeps logs for TensorBoard
witness-<k>.jsonl  rank k's training script, where it tells: what rank k itself saw, step by step
requeue            rank 0's training script: it stopped early with a checkpoint to go on from
=================  ===========================================================

This module is imported by every rank before its script, so it needs the standard library only.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddl.errors import CourseError
from ddl.records import files
from ddl.records.jsonfiles import FULL, append_json_line, read_json, write_json
from ddl.records.paths import runs_dir


@dataclass(frozen=True)
class RunFolder:
    """The paths inside one run's folder."""

    path: Path

    @classmethod
    def here(cls) -> "RunFolder | None":
        """Return the folder of the run that this process belongs to (``DDL_RUN_DIR``); None outside a run."""
        path = os.environ.get("DDL_RUN_DIR")
        return cls(Path(path)) if path else None

    @property
    def job(self) -> Path:
        return self.path / "job.json"

    @property
    def command(self) -> Path:
        return self.path / "command.sh"

    @property
    def shown(self) -> Path:
        return self.path / "shown.json"

    @property
    def launcher(self) -> Path:
        return self.path / "launcher.jsonl"

    @property
    def launcher_log(self) -> Path:
        return self.path / "launcher.log"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def weights(self) -> Path:
        return self.path / "weights.npz"

    @property
    def timeline(self) -> Path:
        return self.path / "timeline.json"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def waiting(self) -> Path:
        return self.path / "waiting"

    @property
    def turn(self) -> Path:
        return self.path / "turn.json"

    @property
    def reserve(self) -> Path:
        return self.path / "reserve"

    @property
    def requeue(self) -> Path:
        return self.path / "requeue"

    @property
    def rendezvous(self) -> Path:
        return self.path / "rendezvous.json"

    def rank(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.json"

    def stalled(self, rank: int) -> Path:
        return self.path / f"stalled-{rank}.json"

    def exit(self, rank: int) -> Path:
        return self.path / f"exit-{rank}.json"

    def log(self, rank: int) -> Path:
        return self.path / f"rank-{rank}.log"

    def lost(self, rank: int) -> Path:
        return self.path / f"lost-{rank}"

    def error(self, rank: int) -> Path:
        return self.path / f"error-{rank}.json"

    def stack(self, rank: int) -> Path:
        return self.path / f"stack-{rank}.txt"

    def witness(self, rank: int) -> Path:
        return self.path / f"witness-{rank}.jsonl"

    def last_change(self) -> float:
        """When a rank last wrote something of its own accord, in seconds since the epoch."""
        latest = 0.0
        with contextlib.suppress(OSError), os.scandir(self.path) as entries:
            for entry in entries:
                if not entry.name.startswith(("stack-", "stalled-")):  # what a look at the ranks leaves
                    latest = max(latest, entry.stat().st_mtime)
        return latest

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
    own = next((i for i, line in enumerate(frames) if "ddl/rank/worker.py" in line), len(frames))
    return "\n".join(frames[:own])
