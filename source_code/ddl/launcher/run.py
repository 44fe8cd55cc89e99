"""Start, follow and stop runs: the only module that starts their processes."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ddl.errors import CourseError, NotFound, OneLine
from ddl.launcher import processes, slurm
from ddl.launcher.evidence import stall_s
from ddl.launcher.failure import SLURM_ENDS, Failure
from ddl.launcher.job import Job, option_arguments, resolve_script
from ddl.launcher.options import check as check_options
from ddl.launcher.plan import HERE, Plan, plan
from ddl.launcher.progress import EVENT, Progress, end_of, events_of, launcher_events, one_record, progress_of, read_job
from ddl.launcher.site import Site
from ddl.launcher.warm import ensure as ensure_template
from ddl.records.folder import RunFolder, StorageError, processes_of
from ddl.records.jsonfiles import FULL, DamagedFile, is_full, read_json, read_json_lines
from ddl.records.log import last_lines
from ddl.records.paths import course_root, data_dir, runs_dir, source_dir, working_dir
from ddl.records.stack import require_keras_2
from ddl.words import printable

if TYPE_CHECKING:
    import pandas

POLL_S = 0.2
FOLDER = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")  # a run folder's name
SHOWN = 12  # runs in the table that a notebook shows
YOUNG_S = 5.0  # a younger folder may not have its job yet
STOP_GRACE_S = 6.0  # horovodrun ends its ranks within a second or two; after this the launcher does
CANCEL_GRACE_S = 60.0  # Slurm sends SIGTERM, and SIGKILL after KillWait, usually 30 s


def launch(
    script: str | Path,
    *,
    workers: int = 2,
    nodes: int | None = None,
    args: Iterable[Any] = (),
    name: str | None = None,
    threads: int | None = None,
    timeout_s: float | None = None,
    oversubscribe: bool = False,
    cluster: str = "horovod",
    parameter_servers: int | None = None,
    warm: bool = True,
    env: Mapping[str, str] | None = None,
    dry_run: bool = False,
    wait: bool = True,
    detach: bool = False,
    check: bool = True,
    site: Site | str | Path | None = None,
    **options: Any,
) -> "Run | None":
    """Run a script on several workers and show its progress.

    Parameters
    ----------
    script
        A script for Horovod, tf.distribute or torchrun: a path, or the name of one of the course's scripts.
    workers
        Number of ranks that train.
    nodes
        Number of nodes to use; by default the fewest that hold the ranks.
    args
        Arguments of the script, passed on unchanged.
    name
        The run's name in tables and figures; runs with the same name are seeds of one arm.
    threads
        Threads per rank; by default the cores are shared equally.
    timeout_s
        End the run after this many seconds.
    oversubscribe
        Allow more ranks than this machine has cores or GPUs.
    cluster
        "horovod"; a cluster of tf.distribute: "multi_worker" or "parameter_server"; or "torchrun". Those of
        tf.distribute set ``TF_CONFIG`` in every rank before its script runs, and "parameter_server" adds a
        coordinator (rank 0) and parameter servers (the last ranks). "torchrun" sets what PyTorch's torchrun does:
        ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and so on.
    parameter_servers
        Number of parameter servers; by default one, with "parameter_server".
    warm
        Let ranks start as forks of a process that has imported TensorFlow and Horovod before (`ddl.launcher.warm`).
        False for a script that must not find them imported. Ranks of "torchrun" never do.
    env
        Variables that are set for the ranks. Their values are neither shown nor recorded: the shell line takes them
        from the terminal that it is pasted into.
    dry_run
        Only print the shell line, and return None.
    wait
        Return when the run is over; otherwise at once, and `Run.wait` follows it later.
    detach
        Return as soon as the run is started, and let it outlive this process; on a cluster as a batch job.
        ``attach(run.id)`` finds it again.
    check
        Raise `RunFailed` if the run fails, so that later cells don't run. A run that was stopped is returned.
    site
        Where to run: a site, or the path of a site file. By default ``Site.here()`` finds it.
    **options
        Options of the script: ``recipe="warmup", sync_bn=True`` becomes ``--recipe warmup --sync-bn``.

    Raises
    ------
    JobError, SiteError
        If the script does not exist, or the site cannot hold that many workers.
    SlurmError
        If Slurm rejects a batch job.
    StorageError
        If the run's folder cannot be written.
    WrongKeras
        If ``tf.keras`` would not be Keras 2.
    RunFailed
        If the run fails, unless `check` is False.
    """
    cwd = str(working_dir())
    job = Job(
        script=resolve_script(script, cwd),
        args=(*args, *option_arguments(options)),
        workers=workers,
        cwd=cwd,
        name=name or "",
        threads=threads,
        timeout_s=timeout_s,
        oversubscribe=oversubscribe,
        nodes=nodes,
        cluster=cluster,
        parameter_servers=parameter_servers,
        warm=warm,
        env=tuple((env or {}).items()),
    )
    check_options(job.script, job.args, launch.__kwdefaults__ or ())
    site = site if isinstance(site, Site) else Site.here(site)
    if dry_run:
        planned = plan(job, site, run_id="dry-run", folder=runs_dir() / "dry-run", detach=detach, **_surroundings())
        if planned.where != HERE:
            print(f"# {planned.where}")
        print(planned.shell_line)
        return None
    run = start(job, site, detach)
    if detach or not wait:
        return run
    run.wait()
    if check and run.state in ("failed", "lost"):
        raise RunFailed(run)
    return run


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
    """The cell or terminal was interrupted, and the run was stopped."""

    def __init__(self, run: "Run") -> None:
        super().__init__(f"run {run.id} was stopped, and none of its processes is left")
        self.run = run


class RunLeft(OneLine, KeyboardInterrupt):
    """Following a detached run was interrupted; the run continues."""

    def __init__(self, run: "Run") -> None:
        super().__init__(
            f"run {run.id} goes on by itself: attach({run.id!r}).wait() follows it "
            f"again, attach({run.id!r}).stop() ends it"
        )
        self.run = run


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    return bool(shell) and hasattr(shell, "kernel")


def start(job: Job, site: Site, detach: bool = False) -> "Run":
    """Write the run folder and start the job's processes; return the `Run` without waiting."""
    if not site.enters_container:  # ranks in an image have that one's Keras, and look for themselves
        require_keras_2()
    stall_s()  # what supervisors can't read is refused here
    if job.warm and site.takes_templates and _in_notebook():
        ensure_template()
    run_id, folder = _new_folder()
    paths = RunFolder(folder)
    try:
        planned = plan(job, site, run_id=run_id, folder=folder, created=time.time(), detach=detach, **_surroundings())
        for path, text in planned.files:
            paths.write_text(path, text)
        paths.command.chmod(0o755)
        paths.set_aside()
        log = _open_log(paths.launcher_log)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # nothing is running yet
        raise
    environment = {**os.environ, **dict(planned.environment)}
    with log:
        if detach and site.scheduler == "slurm":
            return _submit(planned, environment, paths)
        return _spawn(planned, environment, paths, log, detach)


def _submit(planned: Plan, environment: dict[str, str], paths: RunFolder) -> "Run":
    """Submit a batch job to Slurm."""
    try:
        number = slurm.submit(planned.argv, planned.cwd, environment)
    except slurm.SlurmError as error:
        paths.append(
            paths.launcher,
            {"event": "ended", "time": time.time(), "state": "failed", "reason": "launch", "message": str(error)},
        )
        paths.give_up_reserve()
        raise
    paths.append(paths.launcher, {"event": "submitted", "time": time.time(), "job": number})
    return Run(paths.path)


def _spawn(planned: Plan, environment: dict[str, str], paths: RunFolder, log: BinaryIO, detach: bool) -> "Run":
    """Start the process that starts the ranks.

    Unless the run is detached, this process holds one end of a pipe: when it dies, even by SIGKILL, the run ends. The
    other end is standard input, which Slurm and containers forward to the ranks.
    """
    read_end = write_end = None
    if not detach:
        read_end, write_end = os.pipe()
        environment["DDL_LIFELINE"] = "stdin"
    try:
        process = subprocess.Popen(
            planned.argv,
            cwd=planned.cwd,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL if detach else read_end,
            start_new_session=True,  # Ctrl-C reaches only this process, which then stops the run
        )
        ended = threading.Event()
        threading.Thread(target=_reap, args=(process, write_end, ended), daemon=True).start()
        write_end = None
    except BaseException:  # interrupts too: closing the pipe ends what may have been started
        processes.end(paths.path.name)
        raise
    finally:
        for end in (read_end, write_end):
            if end is not None:
                os.close(end)
    return Run(paths.path, process, ended)


def _reap(process: subprocess.Popen, lifeline: int | None, ended: threading.Event) -> None:
    """Wait for a process to end and close our end of its pipe, even if its `Run` is gone."""
    process.wait()
    ended.set()
    if lifeline is not None:
        os.close(lifeline)


def _open_log(path: Path) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise StorageError(error, path) from error


def _surroundings() -> dict[str, Any]:
    """What a plan needs to know of this machine: folders that the run must see, and the user."""
    needs = [course_root(), source_dir(), runs_dir()]
    with contextlib.suppress(OSError):  # loading data reports it, where it matters
        data_dir().mkdir(parents=True, exist_ok=True)
        needs.append(data_dir())
    return {"needs": [str(path) for path in needs], "user": f"{os.getuid()}:{os.getgid()}"}


def _new_folder() -> tuple[str, Path]:
    """Make a new run folder, named by the time and a few random digits."""
    try:
        runs_dir().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(error, runs_dir(), "made") from error
    while True:
        run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
        folder = runs_dir() / run_id
        try:
            folder.mkdir()
            return run_id, folder
        except FileExistsError:
            continue
        except OSError as error:
            raise StorageError(error, folder, "made") from error


class Run:
    """One run, active or over; all its state is in its folder.

    Attributes
    ----------
    job
        The content of ``job.json``; empty if it is damaged.
    unwritten
        Why the run's end could not be recorded, if so.
    """

    recorded = False

    def __init__(
        self, folder: str | Path, process: subprocess.Popen | None = None, ended: threading.Event | None = None
    ) -> None:
        self.folder = Path(folder)
        self._paths = RunFolder(self.folder)
        self._process = process
        self._ended = ended or threading.Event()  # set when our process has ended
        self._events = events_of(self._paths)
        self._unrecorded: list[dict] = []  # the run's end, if it could not be written
        self.unwritten: StorageError | None = None
        try:
            self.job = read_job(self._paths) or {}
        except DamagedFile:
            self.job = {}
        self.id = self.folder.name  # a copy has the id of its own folder
        self.name = printable(self.job.get("name") or self.id)

        site = self.job.get("site", {})
        queued = site.get("scheduler") == "slurm" and not site.get("allocation")  # job steps are not queued
        self._queue = slurm.SlurmJob(self.id) if queued else None

    # ------------------------------------------------------------ looking

    def progress(self) -> Progress:
        """Return everything that can be known now."""
        job = self._look_at_queue()
        self._notice_death(job)
        alive = self._alive(job)
        return progress_of(
            self.folder,
            alive=alive,
            events=self._events,
            waiting=job.waiting if job else self._waiting() if alive else "",
            told=self._unrecorded,
        )

    def _waiting(self) -> str:
        """What a launch on this machine waits for, where people share its cores."""
        try:
            return self._paths.waiting.read_text()
        except OSError:
            return ""

    def _look_at_queue(self, fresh: bool = False) -> slurm.JobState | None:
        """The job's state in Slurm, unless it doesn't matter: while our srun visibly runs ranks."""
        if not self._queue or self._settled():
            return None
        if self._process and self._process.poll() is None and self._paths.rank(0).exists():
            return None
        try:
            return self._queue.state(fresh=fresh)
        except slurm.SlurmError:
            return None  # the controller doesn't answer for a while: the files have to do

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
        """The run's exit status: 0 when done, else that of the first rank to fail.

        As in a shell, that is 128 plus the signal's number for a killed rank; 1 if no rank is to blame.
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
        return one_record(self._events.look())

    def witness(self, rank: int = 0) -> list[dict]:
        """Return one rank's own record, step by step; `events` are rank 0's record of the whole run."""
        return read_json_lines(self._paths.witness(rank))

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

    def log(self, rank: int = 0) -> Path:
        """Where one rank's output is kept."""
        return self._paths.log(rank)

    def logs(self, rank: int = 0) -> str:
        """Return everything that one rank has printed."""
        path = self.log(rank)
        if not path.exists():
            there = sorted(file.name for file in self.folder.glob("rank-*.log"))
            raise NotFound(f"run {self.id} has no log of rank {rank}; there are: {', '.join(there) or 'none'}")
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
                if self._ended.is_set():  # and something else is awaited: what Slurm says
                    time.sleep(POLL_S)
                self._ended.wait(POLL_S)
        except KeyboardInterrupt:
            if self.job.get("detached"):
                view.close(self.progress())
                raise RunLeft(self) from None
            try:
                self.stop()
            except KeyboardInterrupt:  # a second interrupt: end it at once
                self._kill()
            view.close(self.progress())
            raise RunInterrupted(self) from None
        self._await_launcher()
        view.close(self.progress())
        return self

    def _await_launcher(self) -> None:
        """Wait until the launcher is gone, after it has recorded the run's end."""
        deadline = time.monotonic() + (CANCEL_GRACE_S if self._queue else STOP_GRACE_S)
        while processes.of_run(self.id) and time.monotonic() < deadline:
            time.sleep(POLL_S / 4)
        processes.end(self.id)
        if self._process:
            self._process.wait()
        while self._queue and not self._settled() and time.monotonic() < deadline:
            self._notice_death(self._look_at_queue(fresh=True))
            time.sleep(POLL_S)

    def stop(self) -> None:
        """End the run and wait until its processes are gone; leaves a run that is over as it is."""
        if self.progress().over:
            return
        if not (self._queue and self._cancel(self._queue)):
            pid = self._launcher_pid()
            if pid:
                processes.send(pid, signal.SIGTERM)
                deadline = time.monotonic() + STOP_GRACE_S
                # One that has only just started ends without a record.
                while time.monotonic() < deadline and not self._end() and pid in processes.of_run(self.id):
                    time.sleep(POLL_S / 4)
        self._await_launcher()
        self._record_end({"state": "stopped", "reason": "stopped"})

    def _kill(self) -> None:
        """Kill the run without asking its processes first."""
        if self._queue:
            with contextlib.suppress(slurm.SlurmError):
                self._queue.cancel()
        processes.end(self.id, grace_s=0.1)
        self._record_end({"state": "stopped", "reason": "killed"})

    def _cancel(self, queue: slurm.SlurmJob) -> bool:
        """Cancel the job in Slurm and wait until it is gone; False if there is none."""
        if not queue.cancel():
            return False
        deadline = time.monotonic() + CANCEL_GRACE_S
        while time.monotonic() < deadline:
            state = queue.state(fresh=True)
            if not (state and state.active):
                break
            time.sleep(POLL_S)
        return True

    def _launcher_pid(self) -> int:
        if self._process:
            return self._process.pid
        launched: dict = next(
            (event for event in read_json_lines(self._paths.launcher, EVENT) if event["event"] == "launched"), {}
        )
        return launched["pid"] if launched.get("pid") in processes.of_run(self.id) else 0

    def _alive(self, job: slurm.JobState | None) -> bool:
        if self._process:
            return self._process.poll() is None
        if self._queue:
            return bool(job and job.active)
        return not self._end() and bool(processes.of_run(self.id))

    def _end(self) -> dict | None:
        return end_of([*read_json_lines(self._paths.launcher, EVENT), *self._unrecorded])

    def _launcher_events(self) -> list[dict]:
        return [*launcher_events(self._paths, processes_of(self.job), alive=False), *self._unrecorded]

    def _settled(self) -> bool:
        """Whether the run's end is recorded for good."""
        end = self._end()
        return end is not None and (not self._queue or "job" in end)

    def _notice_death(self, job: slurm.JobState | None) -> None:
        """Record an end that the launcher could not record or explain."""
        if self._settled():
            return
        if self._queue:
            gone = self._process.poll() is not None if self._process else True
            if gone and not (job and job.active):
                self._settle(self._queue)
            return
        status = self._process.poll() if self._process else None
        if status is not None and not end_of(self._launcher_events()):
            processes.end(self.id)
            if status < 0:
                self._record_end(
                    {"state": "failed", "reason": "launcher killed", "signal": signal.Signals(-status).name}
                )
            elif status == 0 or is_full(self.folder):  # it knew, but could not record it
                self._record_end({"state": "failed" if status else "done", "reason": "storage"})
            else:
                self._record_end(self._launch_failure(status))

    def _launch_failure(self, status: int) -> dict:
        log = self._paths.launcher_log
        text = "\n".join(last_lines(log, 100))
        return {
            "state": "failed",
            "reason": "launch",
            "log": text,
            "message": text.splitlines()[-1] if text else f"exit {status}",
        }

    def _settle(self, queue: slurm.SlurmJob) -> None:
        """Record how the job ended according to Slurm, beside what the ranks recorded."""
        try:
            job = queue.ended()
        except slurm.SlurmError:
            return  # asked again next time
        if job and job.active:
            return
        events = self._launcher_events()
        if job is None:  # Slurm has forgotten it
            if end := end_of(events):
                self._record_end({**end, "event": "ended", "job": ""})
            elif self._process:
                self._record_end(self._launch_failure(self._process.returncode) | {"job": ""})
        elif not events and job.state == "FAILED":
            self._record_end(self._launch_failure(1) | {"job": job.id})
        else:
            self._record_end(_end_by_slurm(job, end_of(events) or {}))

    def _record_end(self, fields: dict) -> None:
        end = {"event": "ended", "time": time.time(), **fields}
        try:
            self._paths.append(self._paths.launcher, end)
        except StorageError as error:
            self.unwritten = error
            why = {"reason": "storage"} if error.errno in FULL and "reason" not in fields else {}
            self._unrecorded.append({**end, **why})  # known as long as this process lives
        self._paths.give_up_reserve()


def _end_by_slurm(job: slurm.JobState, end: dict) -> dict:
    """Combine what Slurm says of a run's end with what the run recorded itself."""
    known = {key: value for key, value in end.items() if key not in ("event", "time")}
    by_slurm = {"job": job.id, "slurm": job.state, "nodes": job.nodes, "by": job.by}
    if job.state in SLURM_ENDS and known.get("state") != "done":
        return known | by_slurm | {"state": "failed"}
    if known:
        return known | by_slurm
    if job.state == "CANCELLED":
        return by_slurm | {"state": "stopped", "reason": "cancelled"}
    return by_slurm | {"state": "lost" if job.state == "COMPLETED" else "failed"}


class Runs(list):
    """A list of runs that a notebook shows as a table, the latest first, with links to their views."""

    def _repr_html_(self) -> str:
        from ddl.display.panel import runs_html

        latest = self[: -SHOWN - 1 : -1]
        return runs_html([(run.job.get("created"), run.progress()) for run in latest], len(self))


def runs() -> Runs:
    """Return all runs in the runs folder, oldest first, damaged ones included.

    Raises
    ------
    StorageError
        If the runs folder exists and cannot be read.
    """
    return Runs(Run(folder) for folder in _folders())


def _folders() -> list[Path]:
    """The folders of runs, sorted by name."""
    try:
        with os.scandir(runs_dir()) as entries:
            found = sorted(Path(entry.path) for entry in entries if entry.is_dir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(error, runs_dir(), "read") from error
    return [
        folder
        for folder in found
        if os.path.lexists(RunFolder(folder).job) or (FOLDER.fullmatch(folder.name) and _age_s(folder) > YOUNG_S)
    ]


def _age_s(folder: Path) -> float:
    """Seconds since a folder was last changed; 0 if it is gone."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def attach(run_id: str) -> Run:
    """Return a run by its id or the beginning of it, wherever it was started; `Run.wait` follows it.

    Raises
    ------
    NoSuchRun
        If no run, or more than one, has an id that begins so.
    StorageError
        If the runs folder exists and cannot be read.
    """
    folders = _folders()
    found = [folder for folder in folders if folder.name == run_id] or [
        folder for folder in folders if folder.name.startswith(run_id)
    ]
    if len(found) == 1:
        return Run(found[0])
    if not found:
        latest = ", ".join(folder.name for folder in folders[-3:]) or "none yet"
        raise NoSuchRun(f"no run {run_id!r} in {runs_dir()}; the latest are: {latest}")
    raise NoSuchRun(f"{run_id!r} is the beginning of {len(found)} runs: {', '.join(path.name for path in found)}")
