"""Follow and stop runs, and look at what they recorded."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.errors import CourseError, NotFound, OneLine
from ddl.launcher import processes
from ddl.launcher.failure import Failure
from ddl.launcher.lifetime import Lifetime
from ddl.launcher.progress import Progress, events_of, progress_of, read_job, without_repeats
from ddl.launcher.restarts import Restart
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import DamagedFile, read_json
from ddl.records.machine import host_name
from ddl.records.paths import runs_dir
from ddl.words import printable

if TYPE_CHECKING:
    import pandas

FOLDER = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")  # a run folder's name
SHOWN = 12  # runs in the table that a notebook shows
YOUNG_S = 5.0  # a younger folder may not have its job yet


class NoSuchRun(CourseError, LookupError):
    """No run, or more than one, has the id asked for."""


class RunFailed(CourseError, RuntimeError):
    """A run failed; a short version of what has been shown already."""

    def __init__(self, run: "Run") -> None:
        failure = run.failure
        assert failure, f"run {run.id} has not failed"
        super().__init__("\n".join([f"run {run.id}: {failure.sentence}", *failure.last_words]))
        self.run = run

    def _render_traceback_(self) -> list[str]:
        return [f"RunFailed: run {self.run.id} {self.run.state}, and why is shown above"]


class RunInterrupted(OneLine, KeyboardInterrupt):
    """The cell or terminal was interrupted: the run was stopped, or goes on without being followed."""

    def __init__(self, run: "Run", outcome: str) -> None:
        super().__init__(f"run {run.id} {outcome}")
        self.run = run


class Run:
    """One run, active or over; all its state is in its folder. `job` is its ``job.json``, empty if that is damaged."""

    recorded = False

    def __init__(self, folder: str | Path, process: subprocess.Popen | None = None) -> None:
        self.folder = Path(folder)
        self._paths = RunFolder(self.folder)
        self._events = events_of(self._paths)
        try:
            self.job = read_job(self._paths) or {}
        except DamagedFile:
            self.job = {}
        self.id = self.folder.name  # a copy has the id of its own folder
        self.name = printable(self.job.get("name") or self.id)
        self._lifetime = Lifetime(self._paths, self.job, process)

    # ------------------------------------------------------------ looking

    def progress(self) -> Progress:
        """Return everything that can be known now."""
        alive, waiting = self._lifetime.look()
        unrecorded = self._lifetime.unrecorded
        return progress_of(self.folder, alive=alive, events=self._events, waiting=waiting, unrecorded=unrecorded)

    @property
    def state(self) -> str:
        """queued, starting, running, training, done, failed, stopped, lost or damaged."""
        return self.progress().state

    @property
    def created(self) -> float:
        """When it was launched, in seconds since the epoch."""
        return self.job.get("created") or self.folder.stat().st_mtime

    @property
    def failure(self) -> Failure | None:
        """What went wrong, or None."""
        return self.progress().failure

    @property
    def status(self) -> int:
        """The run's exit status: 0 when done, else that of the first rank to fail, or 1 if no rank is to blame.

        As in a shell, that is 128 plus the signal's number for a killed rank.
        """
        progress = self.progress()
        if progress.state == "done":
            return 0
        return (progress.failure and progress.failure.status) or 1

    @property
    def result(self) -> dict | None:
        """What the script recorded at its end, or None."""
        return read_json(self._paths.result)

    def events(self) -> list[dict]:
        """Return all events that the script has recorded so far; repeated steps of a resumed training once."""
        return without_repeats(self._events.look())

    @property
    def history(self) -> "pandas.DataFrame":
        """The evaluations so far, one row each."""
        import pandas

        rows = [
            {key: value for key, value in event.items() if key not in ("event", "time")}
            for event in self.events()
            if event["event"] == "evaluation"
        ]
        return pandas.DataFrame(rows)

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """Each start after a failed one, with its reason and what it cost."""
        return self.progress().restarts

    def kill_rank(self, rank: int) -> None:
        """Kill a rank with SIGKILL, as a machine without memory does. It must run on this machine: NotFound if not."""
        record = read_json(self._paths.rank(rank)) or {}
        here = record.get("host") == host_name() or self.job.get("site", {}).get("scheduler") == "namespaces"
        if not here or record.get("pid") not in processes.of_run(self.id):
            raise NotFound(f"rank {rank} of run {self.id} does not run on this machine")
        processes.send(record["pid"], signal.SIGKILL)

    def logs(self, rank: int = 0) -> str:
        """Return everything that one rank has printed."""
        path = self._paths.log(rank)
        if not path.exists():
            logs = sorted(file.name for file in self.folder.glob("rank-*.log"))
            raise NotFound(f"run {self.id} has no log of rank {rank}; there are: {', '.join(logs) or 'none'}")
        return path.read_text(errors="replace")

    def __repr__(self) -> str:
        from ddl.display.summary import summary

        return summary(self.progress())

    def _repr_html_(self) -> str:
        from ddl.display.summary import summary_html

        return summary_html(self.progress())

    # ------------------------------------------------------------ following and stopping

    def wait(self, view: Any = None) -> "Run":
        """Show the run until it is over, and return it however it ended.

        An interrupt stops the run, but only stops following a detached one.
        """
        if view is None:
            from ddl.display import view as views

            view = views.of(self)
        try:
            while not (progress := self.progress()).over:
                view.update(progress)
                self._lifetime.pause()
        except KeyboardInterrupt:
            again = f"attach({self.id!r})"
            outcome = f"goes on by itself: {again}.wait() follows it again, {again}.stop() ends it"
            if not self.job.get("detached"):
                try:
                    self.stop()
                except KeyboardInterrupt:  # a second one
                    self._lifetime.kill()
                outcome = "was stopped, and none of its processes is left"
            view.close(self.progress())
            raise RunInterrupted(self, outcome) from None
        self._lifetime.await_end()
        view.close(self.progress())
        return self

    def stop(self) -> None:
        """End the run and wait until its processes are gone; leaves a run that is over as it is."""
        if not self.progress().over:
            self._lifetime.stop()

    def make_room(self) -> None:
        """Let the ranks write a checkpoint, if their script can, and end; return at once. After 20 s they are ended."""
        self._lifetime.make_room()

    @property
    def unwritten(self) -> StorageError | None:
        """Why the run's end could not be recorded, if so."""
        return self._lifetime.unwritten


class Runs(list):
    """A list of runs that a notebook shows as a table, the latest first, with links to their views."""

    def _repr_html_(self) -> str:
        from ddl.display.panel import runs_html

        latest = self[: -SHOWN - 1 : -1]
        return runs_html([(run.job.get("created"), run.progress()) for run in latest], len(self))


def runs() -> Runs:
    """Return all runs in the runs folder, oldest first, damaged ones included; StorageError if it cannot be read."""
    return Runs(Run(folder) for folder in _folders())


def _folders() -> list[Path]:
    """The folders of runs, sorted by name."""
    try:
        with os.scandir(runs_dir()) as entries:
            folders = sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(error, runs_dir(), "read") from error
    return [folder for folder in folders if os.path.lexists(RunFolder(folder).job) or _lost_its_job(folder)]


def _lost_its_job(folder: Path) -> bool:
    try:
        return bool(FOLDER.fullmatch(folder.name)) and time.time() - folder.stat().st_mtime > YOUNG_S
    except OSError:  # it is gone
        return False


def attach(run_id: str) -> Run:
    """Return a run by its id or the beginning of it, wherever it was started; `Run.wait` follows it.

    NoSuchRun if no run, or more than one, has an id that begins so; StorageError if the runs folder cannot be read.
    """
    folders = _folders()
    found = [folder for folder in folders if folder.name.startswith(run_id)]
    exact = [folder for folder in found if folder.name == run_id]
    if exact or len(found) == 1:
        return Run((exact or found)[0])
    if not found:
        latest = ", ".join(folder.name for folder in folders[-3:]) or "none yet"
        raise NoSuchRun(f"no run {run_id!r} in {runs_dir()}; the latest are: {latest}")
    raise NoSuchRun(f"{run_id!r} is the beginning of {len(found)} runs: {', '.join(path.name for path in found)}")
