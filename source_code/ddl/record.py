"""What a run leaves behind: its folder, and the records that ranks write into it.

Every file of a run folder has exactly one writer, so nothing needs a lock:

=================  ===========================================================
job.json           the launcher, before anything starts
command.sh         the launcher: the printed line, to run again
launcher.jsonl     the launcher: launched, exit of each rank, end of the run
rank-<k>.json      rank k as it starts: host, process id, threads; in a cluster its address; and
                   when its script came to its end
rank-<k>.log       rank k: everything that it prints
error-<k>.json     rank k, when an exception ends it
exit-<k>.json      the task that looks after rank k, on several nodes: how it ended
hosts              where hosts are made on one machine: their names and addresses
rendezvous.json    the task of rank 0, on several nodes: where the ranks meet
events.jsonl       rank 0's training script, as it goes (`Recorder`)
result.json        rank 0's training script, at the end (`Recorder`)
reserve            the launcher: room for the last records when the disk is full; gone at the end
checkpoint.npz     rank 0's training script, when asked to
weights.npz        rank 0's training script, where it keeps the model's weights at the end
timeline.json      Horovod in rank 0, where its script asks for that: what it did and when
tensorboard/       rank 0's training script, where it keeps logs for TensorBoard
witness-<k>.jsonl  rank k's training script, where it tells: what rank k itself saw, step by step
requeue            rank 0's training script: it stopped early with a checkpoint to go on from
dismissed          rank 0 as the coordinator of parameter servers: it is done, the others may go
=================  ===========================================================

This module is imported by every rank before its script, so it needs the standard library only.
"""

import contextlib
import errno
import json
import math
import os
import platform
import sys
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ddl.errors import CourseError

__all__ = [
    "FULL",
    "DamagedFile",
    "JsonLines",
    "Recorded",
    "Recorder",
    "RunFolder",
    "StorageError",
    "append_json_line",
    "cache_dir",
    "course_root",
    "data_dir",
    "hardware",
    "host_name",
    "is_full",
    "processes_of",
    "read_json",
    "read_json_lines",
    "recorded",
    "runs_dir",
    "stack_of",
    "start_of",
    "versions",
    "write_json",
]


# ---------------------------------------------------------------- where things live


def course_root():
    """The folder that holds ``Start_Here.ipynb``, or the working directory elsewhere."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "Start_Here.ipynb").exists() else Path.cwd()


def cache_dir():
    """This user's cache folder for the course (``$XDG_CACHE_HOME/ddl``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "ddl"


def data_dir():
    """Where data sets live: ``DDL_DATA_DIR``, else the cache folder's ``data``."""
    chosen = os.environ.get("DDL_DATA_DIR")
    return Path(chosen).expanduser() if chosen else cache_dir() / "data"


def runs_dir():
    """Where run folders go: ``DDL_RUNS_DIR``, else ``runs`` in the course folder."""
    chosen = os.environ.get("DDL_RUNS_DIR")
    return Path(chosen).expanduser().resolve() if chosen else course_root() / "runs"


@dataclass(frozen=True)
class RunFolder:
    """The paths inside one run's folder."""

    path: Path

    @property
    def job(self):
        return self.path / "job.json"

    @property
    def command(self):
        return self.path / "command.sh"

    @property
    def launcher(self):
        return self.path / "launcher.jsonl"

    @property
    def launcher_log(self):
        return self.path / "launcher.log"

    @property
    def events(self):
        return self.path / "events.jsonl"

    @property
    def result(self):
        return self.path / "result.json"

    @property
    def weights(self):
        return self.path / "weights.npz"

    @property
    def reserve(self):
        return self.path / "reserve"

    @property
    def requeue(self):
        return self.path / "requeue"

    @property
    def dismissed(self):
        return self.path / "dismissed"

    @property
    def rendezvous(self):
        return self.path / "rendezvous.json"

    def rank(self, rank):
        return self.path / f"rank-{rank}.json"

    def exit(self, rank):
        return self.path / f"exit-{rank}.json"

    def log(self, rank):
        return self.path / f"rank-{rank}.log"

    def error(self, rank):
        return self.path / f"error-{rank}.json"

    def stack(self, rank):
        return self.path / f"stack-{rank}.txt"

    def witness(self, rank):
        return self.path / f"witness-{rank}.jsonl"

    # ------------------------------------------------------------ writing
    # All of it raises `StorageError`; where the disk is full, once `reserve` has been given up.

    def write_text(self, path, text):
        """Write one file of this folder whole or not at all."""
        self._keep(path, lambda: _write_text(path, text))

    def write_json(self, path, mapping):
        """Write one JSON file of this folder whole or not at all."""
        self._keep(path, lambda: write_json(path, mapping))

    def append(self, path, mapping):
        """Append one line to a JSON-lines file of this folder."""
        self._keep(path, lambda: append_json_line(path, mapping))

    def set_aside(self):
        """Keep some room, as far as there is any, for the last records of a run on a full disk."""
        with contextlib.suppress(OSError):
            self.reserve.write_bytes(bytes(RESERVE_BYTES))

    def give_up_reserve(self):
        """Free the room that `set_aside` keeps; return whether there was any."""
        try:
            self.reserve.unlink()
        except OSError:
            return False
        return True

    def _keep(self, path, write):
        try:
            try:
                write()
            except OSError as error:
                if error.errno not in FULL or not self.give_up_reserve():
                    raise
                write()
                self.set_aside()  # what is left of it
        except OSError as error:
            raise StorageError(error, path) from error


# ---------------------------------------------------------------- reading and writing

# What the system says of a disk, or of a user's share of one, that takes no more.
FULL = (errno.ENOSPC, errno.EDQUOT)
RESERVE_BYTES = 64 * 1024


class StorageError(CourseError, OSError):
    """A run's folder cannot be written (or read): where, why, and what to do.

    Parameters
    ----------
    error : OSError
        What the system said.
    path : Path
        What was to be written.
    doing : str
        What could not be done to it.
    """

    def __init__(self, error, path, doing="written"):
        super().__init__(
            f"{path} cannot be {doing}: {error.strerror or error}. {_way_out(error)} (runs are kept in {runs_dir()})"
        )
        self.errno = error.errno


def _way_out(error):
    if error.errno in FULL:
        return "Free some space there, or set DDL_RUNS_DIR to a folder on another disk"
    if error.errno == errno.EROFS:
        return "That file system is read-only: set DDL_RUNS_DIR to a folder that you may write"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "A folder is needed there: move that file away, or set DDL_RUNS_DIR to another folder"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "You have no permission: set DDL_RUNS_DIR to a folder of your own"
    return "Set DDL_RUNS_DIR to a folder that can be used"


class DamagedFile(CourseError, ValueError):
    """A file that is there, and does not hold what it should: empty, cut off, overwritten."""


def is_full(path):
    """Whether the disk that holds `path` has no room left: less than a record takes."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < 4096 or bool(disk.f_files and not disk.f_favail)


def _finite(value):
    """Replace NaN and infinities by None, and NumPy scalars by Python's: strict JSON."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        value = value.item()
    elif hasattr(value, "tolist"):
        return _finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path, mapping):
    """Write `mapping` to `path` whole or not at all: a reader never sees half a file."""
    _write_text(path, json.dumps(_finite(mapping), indent=1, allow_nan=False) + "\n")


def _write_text(path, text):
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text)
        os.replace(part, path)
    finally:
        with contextlib.suppress(OSError):  # such as a read-only disk, where there is none
            part.unlink()


def read_json(path, needs=None):
    """Return the object in `path`, or None while the file is not there.

    Parameters
    ----------
    path : Path
    needs : dict from str to type, optional
        Keys that it must have.

    Raises
    ------
    DamagedFile
        If it cannot be read, is no JSON object, or lacks a key.
    """
    try:
        text = Path(path).read_text()
        value = json.loads(text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        problem = "is empty" if os.path.getsize(path) == 0 else f"is damaged: {error}"
        raise DamagedFile(f"{path} {problem}") from None
    if problem := _lacks(value, needs or {}):
        raise DamagedFile(f"{path} is damaged: {problem}")
    return value


def _lacks(value, needs):
    """Say what an object should have and has not; empty where nothing is missing."""
    if not isinstance(value, dict):
        return "not a JSON object"
    wrong = [
        key for key, kind in needs.items() if not isinstance(value.get(key), kind) or isinstance(value.get(key), bool)
    ]
    return f"without a proper {' and '.join(wrong)}" if wrong else ""


def processes_of(job):
    """How many ranks a run has, from its ``job.json``; one recorded long ago says its workers."""
    return job.get("processes", job.get("workers", 0))


def start_of(folder):
    """When a run began, in seconds since the epoch: its launch, or after a queue its first rank.

    Parameters
    ----------
    folder : RunFolder

    Returns
    -------
    float or None
        None where nothing has begun.
    """
    job = read_json(folder.job) or {}
    if job.get("site", {}).get("scheduler") == "slurm":
        return (read_json(folder.rank(0)) or {}).get("started")
    return job.get("created")


def append_json_line(path, mapping):
    """Append one line in a single write, so that a reader never sees two lines mixed.

    A line that the disk has room for only in part is taken back, before the error is raised.
    """
    line = (json.dumps(_finite(mapping), allow_nan=False) + "\n").encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        end = os.fstat(descriptor).st_size
        if (written := os.write(descriptor, line)) < len(line):
            os.ftruncate(descriptor, end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


class JsonLines:
    """The objects in a file of JSON lines that grows: each look reads on where the last one ended.

    A last line that is still being written is left for the next look. A damaged one is left out,
    and counted.

    Parameters
    ----------
    path : Path
    needs : dict from str to type, optional
        Keys that a line must have, or it is damaged.
    """

    def __init__(self, path, needs=None):
        self.path = Path(path)
        self._needs = needs or {}
        self._start_over()

    def _start_over(self):
        self.read = []
        self.damaged = 0
        self._file, self._offset = None, 0

    def look(self):
        """Return all objects so far: the same list each time, grown."""
        try:
            with open(self.path, "rb") as file:
                about = os.fstat(file.fileno())
                if about.st_ino != self._file or about.st_size < self._offset:
                    self._start_over()  # another file, or one that was emptied
                self._file = about.st_ino
                file.seek(self._offset)
                new = file.read(about.st_size - self._offset)
        except FileNotFoundError:
            self._start_over()
            return self.read
        except OSError as error:
            raise DamagedFile(f"{self.path} cannot be read: {error.strerror}") from None
        complete = new[: new.rfind(b"\n") + 1]
        self._offset += len(complete)
        for line in complete.split(b"\n"):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                value = None
            if _lacks(value, self._needs):
                self.damaged += 1
            else:
                self.read.append(value)
        return self.read


def read_json_lines(path, needs=None):
    """Return the complete, undamaged lines of `path` as objects; see `JsonLines`."""
    return JsonLines(path, needs).look()


def stack_of(path):
    """Return the main thread's frames in a rank's stack dump, from the script's own down.

    The innermost frame comes first; empty where the rank left no dump.
    """
    try:
        threads = Path(path).read_text(errors="replace").split("\n\n")
    except OSError:
        return ""
    main = next((thread for thread in reversed(threads) if "ddl/rank.py" in thread), "")
    frames = main.splitlines()[1:]
    own = next((i for i, line in enumerate(frames) if "ddl/rank.py" in line), len(frames))
    return "\n".join(frames[:own])


class Recorder:
    """Rank 0's pen: events while training, and the result at the end.

    Outside a launched run (no ``DDL_RUN_DIR``) it writes nothing, so that a script also works
    under plain ``python`` or ``horovodrun``. Make one on rank 0 only.
    """

    def __init__(self, folder=None):
        folder = folder or os.environ.get("DDL_RUN_DIR")
        self.folder = RunFolder(Path(folder)) if folder else None
        self._lost = 0  # events since the last one that could be written

    def event(self, name, **fields):
        """Append ``{"event": name, "time": now, **fields}`` to ``events.jsonl``.

        Where it cannot be written, as on a full disk, the training goes on without it: the rank's
        log says so, and a note of the run.
        """
        if not self.folder:
            return
        try:
            if self._lost:
                self._append("note", message=f"{self._lost} records could not be written meanwhile")
                self._lost = 0
            self._append(name, **fields)
        except OSError as error:
            if not self._lost:
                self._complain(error)
            self._lost += 1

    def _append(self, name, **fields):
        append_json_line(self.folder.events, {"event": name, "time": time.time(), **fields})

    def _complain(self, error):
        said = f"{StorageError(error, self.folder.events)}. The training goes on, and records of it are lost"
        print(said, file=sys.stderr, flush=True)
        with contextlib.suppress(StorageError):
            self.folder.append(self.folder.events, {"event": "note", "time": time.time(), "message": said})

    def result(self, mapping):
        """Write ``result.json``, with the run's id and name added from its job."""
        if self.folder:
            job = read_json(self.folder.job) or {}
            names = {key: job[key] for key in ("id", "name") if job.get(key)}
            self.folder.write_json(self.folder.result, {**names, **mapping})


# ---------------------------------------------------------------- what it ran on


def host_name():
    """What this host is called: Slurm's name of the node in a job, else the host's own.

    Each host made on this machine (`ddl.hosts`) has a name of its own.
    """
    return os.environ.get("SLURMD_NODENAME") or platform.node()


def hardware():
    """Describe this host: name, processor, usable cores, memory in GiB, GPUs."""
    from ddl.site import gpu_names, usable_cores

    processor = platform.processor() or platform.machine()
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            processor = line.split(":", 1)[1].strip()
            break
    memory_kib = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "host": host_name(),
        "cpu": processor,
        "cores": usable_cores(),
        "memory_gib": round(memory_kib / 2**20, 1),
        "gpus": list(gpu_names()),
    }


def _lines(path):
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def versions():
    """Versions of what a result depends on, without importing any of it."""
    found = {"python": platform.python_version()}
    names = {
        "tensorflow": ("tensorflow", "tensorflow-cpu"),
        "horovod": ("horovod",),
        "tensorflow_addons": ("tensorflow-addons",),
        "ddl": ("ddl-course",),
    }
    for key, distributions in names.items():
        found[key] = next(filter(None, map(_version, distributions)), None)
    return found


def _version(distribution):
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


# ---------------------------------------------------------------- recorded results


class Recorded:
    """A run recorded earlier and kept with the course; it reads like a finished `Run`."""

    recorded = True
    state = "done"

    def __init__(self, result):
        self.result = result
        self.id = result.get("id")
        self.name = result["name"]

    @property
    def history(self):
        """The run's evaluations, one row each, as a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.result["history"])

    def __repr__(self):
        accuracy = self.result.get("test_accuracy")
        accuracy = "diverged" if accuracy is None else f"held-out accuracy {accuracy:.1%}"
        return f"<recorded {self.name}, seed {self.result.get('seed')}: {accuracy}>"


def recorded(name):
    """Return the runs kept in ``results/reference/<name>.jsonl``.

    Parameters
    ----------
    name : str
        For example ``"convergence-cifar10"``.

    Returns
    -------
    list of Recorded

    Raises
    ------
    FileNotFoundError
        If there is no such file; the message lists those that there are.
    """
    folder = Path(__file__).resolve().parents[2] / "results" / "reference"
    path = folder / f"{name}.jsonl"
    if not path.exists():
        there = sorted(file.stem for file in folder.glob("*.jsonl"))
        raise FileNotFoundError(
            f"no recorded results named {name!r} in {folder}; there are: {', '.join(there) or 'none'}"
        )
    lines = JsonLines(path)
    results = [Recorded(line) for line in lines.look()]
    if lines.damaged:
        raise DamagedFile(f"{path} is damaged in {lines.damaged} of its lines: get it again")
    return results
