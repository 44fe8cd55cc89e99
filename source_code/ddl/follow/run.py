"""Runs: follow and stop them, and read what they recorded."""

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.errors import CourseError, NotFound, OneLine
from ddl.follow import processes
from ddl.follow.divergence import Divergence, divergence
from ddl.follow.failure import Failure
from ddl.follow.process_control import ProcessControl
from ddl.follow.progress import EVENT, Progress, progress_of, without_repeats
from ddl.follow.restarts import Restart
from ddl.records import files
from ddl.records.folder import RunFolder, StorageError, read_job
from ddl.records.jsonfiles import DamagedFile, JsonLines, read_json
from ddl.records.machine import host_name
from ddl.records.paths import runs_dir
from ddl.text import plural, printable

if TYPE_CHECKING:
    import pandas

SHOWN = 12  # runs in the table that a notebook shows


class RunFailed(CourseError, RuntimeError):
    """A run failed. The message is short, because the view has shown the failure already."""

    def __init__(self, run: "Run") -> None:
        failure = run.failure
        assert failure, f"run {run.id} has not failed"
        raised = failure.message and failure.traceback
        last_words = [_message_in(raised, failure.message)] if raised else failure.output
        super().__init__(printable("\n".join([f"run {run.id}: {failure.sentence}", *last_words])))
        self.run = run

    def _render_traceback_(self) -> list[str]:
        return [f"RunFailed: run {self.run.id} {self.run.state}, and why is shown above"]


def _message_in(traceback: str, message: str) -> str:
    """Return the end of a traceback from the line on in which the message begins, or its last line."""
    text = traceback.rstrip()
    begin = text.rfind(message.rstrip())
    return text[text.rfind("\n", 0, begin if begin >= 0 else None) + 1 :]


class RunInterrupted(OneLine, KeyboardInterrupt):
    """The cell or terminal was interrupted. The run was stopped, or continues if it is detached."""

    def __init__(self, run: "Run", outcome: str) -> None:
        super().__init__(f"run {run.id} {outcome}")
        self.run = run


class Output(str):
    """A text whose lines a notebook shows as lines."""

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # called by IPython
        printer.text(str(self))


class Run:
    """One run, active or over. All its state is in its folder; `job` is its ``job.json``, empty if that is damaged."""

    recorded = False

    def __init__(self, folder: str | Path, process: subprocess.Popen | None = None) -> None:
        self.folder = Path(folder)
        self._paths = RunFolder(self.folder)
        self._events = JsonLines(self._paths.events, EVENT)
        try:
            self.job = read_job(self._paths) or {}
        except DamagedFile:
            self.job = {}
        self.id = self.folder.name  # not the recorded one: the folder may be a copy
        self.name = printable(self.job.get("name") or self.id)
        self._processes = ProcessControl(self._paths, self.job, process)
        self._process = process
        self._last: Progress | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.folder.absolute() == other.folder.absolute()

    def __hash__(self) -> int:
        return hash(self.folder.absolute())

    def __reduce__(self) -> tuple:
        return Run, (self.folder.absolute(),)

    # ------------------------------------------------------------ looking

    def progress(self) -> Progress:
        """Return everything that is known now; the end stays known if the run's folder is deleted."""
        last = self._last
        progress = self._look() if not last or os.path.exists(self._paths.job) else last
        if last and not os.path.exists(self._paths.job):
            if self._process and self._process.poll() == 0 and not last.over:  # deleted before this looked again
                last = replace(last, state="done")
            return last if last.over else progress_of(self.folder, alive=False)
        self._last = progress
        return progress

    def _look(self) -> Progress:
        alive, waiting = self._processes.look()
        progress = progress_of(self.folder, alive=alive, events=self._events, waiting=waiting)
        if (silent := self._processes.silent) and not progress.over:
            note = f"Slurm does not answer ({silent}): what is shown may be old"
            progress = replace(progress, notes=(*progress.notes, note))
        return progress

    @property
    def state(self) -> str:
        """queued, starting, running, training, done, failed, stopped, lost or damaged."""
        return self.progress().state

    @property
    def created(self) -> float:
        """The time of the launch, in seconds since the epoch."""
        return self.job.get("created") or self.folder.stat().st_mtime

    @property
    def failure(self) -> Failure | None:
        """Why the run failed, or None."""
        return self.progress().failure

    @property
    def status(self) -> int:
        """The exit status: 0 if the run is done, else the status of the first rank that failed, or 1 if none did.

        For a killed rank it is 128 plus the signal's number, as in a shell.
        """
        progress = self.progress()
        if progress.state == "done":
            return 0
        return (progress.failure and progress.failure.status) or 1

    @property
    def result(self) -> dict | None:
        """The contents of ``result.json``, or None."""
        return read_json(self._paths.result)

    def events(self) -> list[dict]:
        """Return the events that the script has recorded; steps that were repeated after a restart appear once."""
        return without_repeats(self._events.look())

    @property
    def history(self) -> "pandas.DataFrame":
        """The evaluations as a data frame, one row each; the steps of a script that records no evaluations."""
        import pandas

        events = self.events()
        kinds = {event["event"] for event in events}
        kind = "evaluation" if "evaluation" in kinds else "step"
        wanted = [event for event in events if event["event"] == kind]
        return pandas.DataFrame(
            [{key: value for key, value in event.items() if key not in ("event", "time")} for event in wanted]
        )

    @property
    def restarts(self) -> tuple[Restart, ...]:
        """The run's restarts, with their reasons and costs."""
        return self.progress().restarts

    def diverged(self, other: "Run | None" = None, tolerance: float = 0.0) -> Divergence:
        """Return where this run's ranks first differ from rank 0 or, with another run, from its equal ranks.

        Compared are the checksums that the script has recorded with `Recorder.checksums`; see `divergence`.
        """
        return divergence(self.folder, other.folder if other else None, tolerance)

    def kill_rank(self, rank: int) -> None:
        """Kill a rank with SIGKILL, as a machine without memory does; NotFound if it is not on this machine."""
        record = read_json(self._paths.rank(rank)) or {}
        here = record.get("host") == host_name() or self.job.get("site", {}).get("scheduler") == "namespaces"
        if not here or record.get("pid") not in processes.of_run(self.id):
            raise NotFound(f"rank {rank} of run {self.id} is not running on this machine")
        processes.send(record["pid"], signal.SIGKILL)

    def logs(self, rank: int = 0) -> str:
        """Return the output of one rank, of another user's run without control sequences; NotFound if there is none."""
        path = self._paths.log(rank)
        if not path.exists():
            logs = sorted(file.name for file in self.folder.glob("rank-*.log"))
            raise NotFound(f"run {self.id} has no log of rank {rank}; its logs: {', '.join(logs) or 'none'}")
        try:
            text = files.read(path).decode(errors="replace")
            return Output(printable(text) if self._processes.owner else text)
        except OSError as error:
            raise NotFound(f"{path} cannot be read: {error.strerror}") from None

    def __repr__(self) -> str:
        from ddl.display.summary import summary

        return summary(self.progress())

    def _repr_html_(self) -> str:
        from ddl.display.summary import summary_html

        return summary_html(self.progress())

    # ------------------------------------------------------------ following and stopping

    def wait(self, view: Any = None) -> "Run":
        """Show the run until it is over, and return it.

        An interrupt stops the run; if it is detached, an interrupt only stops following it.
        """
        if view is None:
            from ddl.display import view as views

            view = views.of(self)
        try:
            while not (progress := self.progress()).over:
                view.update(progress)
                self._processes.pause()
        except KeyboardInterrupt:
            outcome = f"continues: attach({self.id!r}) or `ddl show {self.id}` follows it, `ddl stop {self.id}` ends it"
            if not self.job.get("detached"):
                self.stop()
                outcome = "was stopped"
            view.close(self.progress())
            raise RunInterrupted(self, outcome) from None
        self._processes.await_end()
        view.close(self.progress())
        return self

    def stop(self) -> None:
        """End the run and wait until its processes are gone; do nothing if it is over."""
        if not self.progress().over:
            self._processes.stop()

    def make_room(self) -> None:
        """Ask the ranks to write a checkpoint if they can, and to end; return at once. After 20 s they are ended."""
        self._processes.make_room()


class Runs(list):
    """A list of runs, shown in a notebook as a table with links to their views, latest first."""

    def __repr__(self) -> str:
        earlier = [f"… {plural(len(self) - SHOWN, 'earlier run')}"] if len(self) > SHOWN else []
        return "\n".join([*earlier, *(f"{run.id}  {run!r}" for run in self[-SHOWN:])]) or "no runs"

    def _repr_html_(self) -> str:
        from ddl.display.panel import runs_html

        latest = self[: -SHOWN - 1 : -1]
        return runs_html([(run.job.get("created"), run.progress()) for run in latest], len(self))


def runs() -> Runs:
    """Return all runs in the runs folder, oldest first, including damaged ones; StorageError if it cannot be read."""
    return Runs(Run(folder) for folder in _folders())


def _folders() -> list[Path]:
    """Return the folders of all runs, sorted by name."""
    try:
        with os.scandir(runs_dir()) as entries:
            folders = sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(error, runs_dir(), "read") from error
    return list(filter(_is_run, folders))


def _is_run(folder: Path) -> bool:
    try:
        return RunFolder(folder).job.exists()
    except PermissionError:  # of another user: shown as damaged
        return True


def attach(run_id: str) -> Run:
    """Return a run by its id or the beginning of it; `Run.wait` follows it.

    NotFound if no run, or more than one, matches; StorageError if the runs folder cannot be read.
    """
    if not run_id:
        raise NotFound("the id of a run must not be empty, got ''")
    folders = _folders()
    found = [folder for folder in folders if folder.name.startswith(run_id)]
    exact = [folder for folder in found if folder.name == run_id]
    if exact or len(found) == 1:
        return Run((exact or found)[0])
    if not found:
        latest = ", ".join(folder.name for folder in folders[-3:]) or "none yet"
        raise NotFound(f"no run {run_id!r} in {runs_dir()}; the latest: {latest}")
    raise NotFound(f"{run_id!r} matches {len(found)} runs: {', '.join(path.name for path in found)}")
