"""Start a run, follow it, stop it: the only module that starts processes."""

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ddl.errors import CourseError, NotFound, OneLine
from ddl.launcher import processes, slurm
from ddl.launcher.failure import SLURM_ENDS, Failure
from ddl.launcher.job import Job, option_arguments, resolve_script
from ddl.launcher.plan import HERE, Plan, job_of, plan
from ddl.launcher.progress import EVENT, JOB, Progress, end_of, events_of, launcher_events, one_record, progress_of
from ddl.launcher.site import Site
from ddl.records.folder import RunFolder, StorageError, processes_of
from ddl.records.jsonfiles import FULL, DamagedFile, is_full, read_json, read_json_lines
from ddl.records.log import last_lines
from ddl.records.paths import course_root, data_dir, runs_dir, source_dir

if TYPE_CHECKING:
    import pandas

__all__ = [
    "NoSuchRun",
    "Run",
    "RunFailed",
    "RunInterrupted",
    "RunLeft",
    "attach",
    "launch",
    "run_pasted",
    "runs",
    "start",
]

POLL_S = 0.2
# What a run's folder is called: here, and by the tasks of a line pasted into a job of Slurm.
FOLDER = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}|slurm-.+")
YOUNG_S = 5.0  # a folder without its job may be in the making
# horovodrun ends its ranks within a second or two; after this the launcher does it itself.
STOP_GRACE_S = 6.0
# Slurm asks first and kills after KillWait, 30 s as a rule.
CANCEL_GRACE_S = 60.0


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
    dry_run: bool = False,
    wait: bool = True,
    detach: bool = False,
    check: bool = True,
    site: Site | str | Path | None = None,
    **options: Any,
) -> "Run | None":
    """Run a script on several workers, and show it as it goes.

    Parameters
    ----------
    script
        Any script for Horovod or tf.distribute: a path, or the name of one of the course's own.
    workers
        Number of ranks that compute.
    nodes
        How many nodes they are spread over; by default the fewest that hold them.
    args
        Arguments of the script, passed on as they are.
    name
        What tables and figures call the run; runs of one name are seeds of one arm.
    threads
        Threads per rank; by default the cores are shared out equally.
    timeout_s
        End the run after this many seconds.
    oversubscribe
        Allow more ranks than this machine has cores or GPUs.
    cluster
        "horovod", or a cluster of tf.distribute: "multi_worker" or "parameter_server". The latter two set
        ``TF_CONFIG`` in every rank before its script runs; "parameter_server" adds a coordinator (rank 0) and
        parameter servers (the last ranks).
    parameter_servers
        How many of these; by default one where there are any.
    dry_run
        Print the shell line and do nothing else.
    wait
        Return when the run is over; otherwise at once, and `Run.wait` follows it later.
    detach
        Return as soon as the run is on its way, and let it go on without this process: through the night, on a cluster
        as a batch job. ``attach(run.id)`` finds it again.
    check
        Raise `RunFailed` where the run fails, so that the cells after it don't go on without it. A run that was stopped
        on purpose is returned.
    site
        Where to run: a site, or the path of a site file. By default ``Site.here()`` finds it.
    **options
        Options of the script: ``recipe="warmup", sync_bn=True`` becomes ``--recipe warmup --sync-bn``.

    Returns
    -------
    Run or None
        None for a dry run.

    Raises
    ------
    JobError, SiteError
        If the script is not there, or the site cannot hold that many workers.
    SlurmError
        If Slurm does not take a batch job.
    StorageError
        If the run's folder cannot be written.
    RunFailed
        If the run fails, unless `check` is False.
    """
    cwd = os.getcwd()
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
    )
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
    """No run, or more than one, has the id that was asked for."""


class RunFailed(CourseError, RuntimeError):
    """A run failed. What happened has been shown already: this says it in short."""

    def __init__(self, run: "Run") -> None:
        failure = run.failure
        assert failure, f"run {run.id} has not failed"
        super().__init__("\n".join([f"run {run.id}: {failure.sentence}", *failure.last_words]))
        self.run = run


class RunInterrupted(OneLine, KeyboardInterrupt):
    """The cell (or the terminal) was interrupted, and the run was stopped."""

    def __init__(self, run: "Run") -> None:
        super().__init__(f"run {run.id} was stopped, and none of its processes is left")
        self.run = run


class RunLeft(OneLine, KeyboardInterrupt):
    """Following a detached run was interrupted; the run goes on."""

    def __init__(self, run: "Run") -> None:
        super().__init__(
            f"run {run.id} goes on by itself: attach({run.id!r}).wait() follows it "
            f"again, attach({run.id!r}).stop() ends it"
        )
        self.run = run


def start(job: Job, site: Site, detach: bool = False) -> "Run":
    """Write the run folder and start the job's processes; return the `Run` without waiting."""
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
        shutil.rmtree(folder, ignore_errors=True)  # nothing has been started yet
        raise
    environment = {**os.environ, **dict(planned.environment)}
    with log:
        if detach and site.scheduler == "slurm":
            return _submit(planned, environment, paths)
        return _spawn(planned, environment, paths, log, detach)


def _submit(planned: Plan, environment: dict[str, str], paths: RunFolder) -> "Run":
    """Put a batch job into Slurm's queue."""
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
    """Start the process that starts the ranks, and whatever stands in front of it.

    Unless the run is detached, this process holds one end of a pipe: when it dies, even by SIGKILL, the run ends. The
    other end is standard input, which Slurm and containers pass on to where the ranks are.
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
            start_new_session=True,  # Ctrl-C is for this process, which then stops the run
        )
        threading.Thread(target=_see_off, args=(process, write_end), daemon=True).start()
        write_end = None
    except BaseException:  # an interrupt, too: closing the pipe ends what may have been started
        processes.end(paths.path.name)
        raise
    finally:
        for end in (read_end, write_end):
            if end is not None:
                os.close(end)
    return Run(paths.path, process)


def _see_off(process: subprocess.Popen, lifeline: int | None) -> None:
    """Collect a process when it has ended, and close our end of its pipe: no `Run` need be left."""
    process.wait()
    if lifeline is not None:
        os.close(lifeline)


def _open_log(path: Path) -> BinaryIO:
    try:
        return open(path, "wb")
    except OSError as error:
        raise StorageError(error, path) from error


def _surroundings() -> dict[str, Any]:
    """What a plan needs to know of this side: folders that the run must see, and for whom."""
    needs = [course_root(), source_dir(), runs_dir()]
    with contextlib.suppress(OSError):  # who loads data says what is wrong, where it matters
        data_dir().mkdir(parents=True, exist_ok=True)
        needs.append(data_dir())
    return {"needs": [str(path) for path in needs], "user": f"{os.getuid()}:{os.getgid()}"}


def _new_folder() -> tuple[str, Path]:
    """Make a run folder that nothing else has: a readable time and a few random letters."""
    try:
        runs_dir().mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(error, runs_dir(), "made") from error
    while True:
        run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        folder = runs_dir() / run_id
        try:
            folder.mkdir()
            return run_id, folder
        except FileExistsError:
            continue
        except OSError as error:
            raise StorageError(error, folder, "made") from error


class Run:
    """One run, going on or over; all that it knows is in its folder.

    Attributes
    ----------
    job
        What was asked for (``job.json``); empty where that is damaged.
    unwritten
        Why it could not be written down how the run ended, if that is so.
    """

    recorded = False

    def __init__(self, folder: str | Path, process: subprocess.Popen | None = None) -> None:
        self.folder = Path(folder)
        self._paths = RunFolder(self.folder)
        self._process = process
        self._events = events_of(self._paths)
        self._told: list[dict] = []  # how the run ended, where that could not be written down
        self.unwritten: StorageError | None = None
        try:
            self.job = read_json(self._paths.job, JOB) or {}
        except DamagedFile:
            self.job = {}
        self.id = self.job.get("id", self.folder.name)
        self.name = self.job.get("name", self.folder.name)

        # Steps in a job that this process runs in have no queue of their own.
        site = self.job.get("site", {})
        self._queue = (
            slurm.SlurmJob(self.id) if site.get("scheduler") == "slurm" and not site.get("allocation") else None
        )

    # ------------------------------------------------------------ looking

    def progress(self) -> Progress:
        """Return a `Progress`: everything that can be known now."""
        job = self._look_at_queue()
        self._notice_death(job)
        return progress_of(
            self.folder,
            alive=self._alive(job),
            events=self._events,
            waiting=job.waiting if job else "",
            told=self._told,
        )

    def _look_at_queue(self, fresh: bool = False) -> slurm.JobState | None:
        """What Slurm says, as far as it matters: not while our own srun is seen to run ranks."""
        if not self._queue or self._settled():
            return None
        if self._process and self._process.poll() is None and self._paths.rank(0).exists():
            return None
        try:
            return self._queue.state(fresh=fresh)
        except slurm.SlurmError:
            return None  # a controller that does not answer for a while: the files say the rest

    @property
    def state(self) -> str:
        """queued, starting, running, training, done, failed, stopped, lost or damaged."""
        return self.progress().state

    @property
    def failure(self) -> Failure | None:
        """What went wrong (`Failure`), or None."""
        return self.progress().failure

    @property
    def status(self) -> int:
        """What the run leaves to the shell: 0 when done, else the status of the first rank to fail.

        A rank that a signal killed counts as 128 and the signal's number, as in a shell; a run that ended badly without
        any rank's doing as 1.
        """
        progress = self.progress()
        if progress.state == "done":
            return 0
        return (progress.failure and progress.failure.status) or 1

    @property
    def result(self) -> dict | None:
        """What the script recorded at its end, as a dictionary; None without one."""
        return read_json(self._paths.result)

    def events(self) -> list[dict]:
        """Return all events that the script has recorded so far, as dictionaries.

        What a resumed training did over again is there once.
        """
        return one_record(self._events.look())

    def witness(self, rank: int = 0) -> list[dict]:
        """Return what one rank itself saw, step by step, as dictionaries; empty if it told nothing.

        `events` are rank 0's account of the whole run; this is each rank's own.
        """
        return read_json_lines(self._paths.witness(rank))

    @property
    def history(self) -> "pandas.DataFrame":
        """The evaluations so far, one row each, as a pandas data frame."""
        import pandas

        rows = [
            {key: value for key, value in event.items() if key not in ("event", "time")}
            for event in self.events()
            if event["event"] == "evaluation"
        ]
        return pandas.DataFrame(rows)

    def logs(self, rank: int = 0) -> str:
        """Return all that one rank has printed."""
        path = self._paths.log(rank)
        if not path.exists():
            there = sorted(file.name for file in self.folder.glob("rank-*.log"))
            raise NotFound(f"run {self.id} has no log of rank {rank}; there are: {', '.join(there) or 'none'}")
        return path.read_text(errors="replace")

    def __repr__(self) -> str:
        from ddl.display.view import summary

        return summary(self.progress())

    def _repr_html_(self) -> str:
        from ddl.display.view import summary_html

        return summary_html(self.progress())

    # ------------------------------------------------------------ following and stopping

    def wait(self, view: Any = None) -> "Run":
        """Show the run until it is over; interrupting this stops the run.

        A detached run is only left alone by an interrupt, and goes on. The run itself is returned, whichever way it
        ended.
        """
        if view is None:
            from ddl.display import view as views

            view = views.of(self)
        try:
            while not (progress := self.progress()).over:
                view.update(progress)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            if self.job.get("detached"):
                view.close(self.progress())
                raise RunLeft(self) from None
            try:
                self.stop()
            except KeyboardInterrupt:  # asked twice: at once, then
                self._kill()
            view.close(self.progress())
            raise RunInterrupted(self) from None
        self._reap()
        view.close(self.progress())
        return self

    def _reap(self) -> None:
        """Wait for the launcher's last breath after it has written down the run's end."""
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
        """End the run and wait until its processes are gone. A run that is over stays as it is."""
        if self.progress().over:
            return
        if not (self._queue and self._cancel(self._queue)):
            pid = self._launcher_pid()
            if pid:
                processes.send(pid, signal.SIGTERM)
                self._await_end(STOP_GRACE_S)
        self._reap()
        self._record_end({"state": "stopped", "reason": "stopped"})

    def _kill(self) -> None:
        """End the run at once, without asking its processes first."""
        if self._queue:
            with contextlib.suppress(slurm.SlurmError):
                self._queue.cancel()
        processes.end(self.id, grace_s=0.1)
        self._record_end({"state": "stopped", "reason": "killed"})

    def _cancel(self, queue: slurm.SlurmJob) -> bool:
        """Cancel the job in Slurm's queue and wait until it is gone; False if there is none."""
        if not queue.cancel():
            return False
        deadline = time.monotonic() + CANCEL_GRACE_S
        while time.monotonic() < deadline:
            state = queue.state(fresh=True)
            if not (state and state.active):
                break
            time.sleep(POLL_S)
        return True

    def _await_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not self._end():
            time.sleep(POLL_S / 4)

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
        return bool(processes.of_run(self.id)) if not self._end() else False

    def _end(self) -> dict | None:
        return end_of([*read_json_lines(self._paths.launcher, EVENT), *self._told])

    def _launcher_events(self) -> list[dict]:
        return [*launcher_events(self._paths, processes_of(self.job), alive=False), *self._told]

    def _settled(self) -> bool:
        """Whether the run's end is written down for good."""
        end = self._end()
        return end is not None and (not self._queue or "job" in end)

    def _notice_death(self, job: slurm.JobState | None) -> None:
        """Write down an end that the launcher could not, or did not know the reason of."""
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
            elif status == 0 or is_full(self.folder):  # it knew, and could not write it down
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
        """Write down how Slurm says that the job ended, beside what the ranks say."""
        try:
            job = queue.ended()
        except slurm.SlurmError:
            return  # asked again at the next look
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
            self._told.append({**end, **why})  # as long as this process is there, it is known
        self._paths.give_up_reserve()


def _end_by_slurm(job: slurm.JobState, end: dict) -> dict:
    """Put together how a run ended from what Slurm says and what the run's own side wrote down."""
    known = {key: value for key, value in end.items() if key not in ("event", "time")}
    by_slurm = {"job": job.id, "slurm": job.state, "nodes": job.nodes, "by": job.by}
    if job.state in SLURM_ENDS and known.get("state") != "done":
        return known | by_slurm | {"state": "failed"}
    if known:
        return known | by_slurm
    if job.state == "CANCELLED":
        return by_slurm | {"state": "stopped", "reason": "cancelled"}
    return by_slurm | {"state": "lost" if job.state == "COMPLETED" else "failed"}


def runs() -> list[Run]:
    """Return all runs in the runs folder, the oldest first, the damaged ones included.

    Raises
    ------
    StorageError
        If the runs folder is there and cannot be read.
    """
    return [Run(folder) for folder in _folders()]


def _folders() -> list[Path]:
    """The folders of runs, in the order of their names."""
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
    """Seconds since a folder was last changed; 0 for one that is gone meanwhile."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def attach(run_id: str) -> Run:
    """Return a run by its id (or the beginning of it), wherever it was started from.

    Call `Run.wait` to follow one that is still going.

    Raises
    ------
    NoSuchRun
        If no run, or more than one, has an id that begins so.
    StorageError
        If the runs folder is there and cannot be read.
    """
    there = _folders()
    found = [folder for folder in there if folder.name == run_id] or [
        folder for folder in there if folder.name.startswith(run_id)
    ]
    if len(found) == 1:
        return Run(found[0])
    if not found:
        latest = ", ".join(folder.name for folder in there[-3:]) or "none yet"
        raise NoSuchRun(f"no run {run_id!r} in {runs_dir()}; the latest are: {latest}")
    raise NoSuchRun(f"{run_id!r} is the beginning of {len(found)} runs: {', '.join(path.name for path in found)}")


def run_pasted(arguments: Sequence[str], site: Site | None = None) -> int:
    """Run a planned command that was pasted into a terminal; return its exit status.

    `arguments` are the words after ``ddl.rank.horovodrun``, or after ``ddl.rank.hosts``; `site` is where, by default
    right here.
    """
    job = job_of(arguments, os.getcwd())
    if job is None:
        print(
            f"ddl.rank.{'hosts' if site else 'horovodrun'}: not a command that this package planned. "
            "To run a script, type:\n  ddl run --workers 2 SCRIPT [ARGUMENT ...]"
        )
        return 2
    # The line is running where it was meant to, whatever layers stood in front of it.
    here = site or replace(Site.detect(), scheduler="local", nodes=1, allocation="")
    try:
        run = start(job, here).wait()
    except KeyboardInterrupt:
        return 130
    except CourseError as error:
        print(error, file=sys.stderr)
        return 2
    return run.status
