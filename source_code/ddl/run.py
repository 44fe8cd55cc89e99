"""Start a run, follow it, stop it: the only module that starts processes."""

import os
import secrets
import signal
import subprocess
import time
from datetime import datetime
from pathlib import Path

from ddl import processes
from ddl.job import Job, option_arguments, resolve_script
from ddl.plan import job_of, plan
from ddl.progress import progress_of
from ddl.record import (
    RunFolder,
    append_json_line,
    read_json,
    read_json_lines,
    runs_dir,
)
from ddl.site import Site

__all__ = ["Run", "RunFailed", "RunInterrupted", "attach", "launch", "run_pasted", "runs", "start"]

POLL_S = 0.2
# horovodrun ends its ranks within a second or two; after this the launcher does it itself.
STOP_GRACE_S = 6.0


def launch(script, *, workers=2, args=(), name=None, threads=None, timeout_s=None,
           oversubscribe=False, dry_run=False, wait=True, check=True, site=None, **options):
    """Run a script on several workers, and show it as it goes.

    Parameters
    ----------
    script : str or Path
        Any Horovod script: a path, or the name of one of the course's own.
    workers : int
        Number of ranks.
    args : sequence of str
        Arguments of the script, passed on as they are.
    name : str, optional
        What tables and figures call the run; runs of one name are seeds of one arm.
    threads : int, optional
        Threads per rank; by default the cores are shared out equally.
    timeout_s : float, optional
        End the run after this many seconds.
    oversubscribe : bool
        Allow more ranks than this machine has cores or GPUs.
    dry_run : bool
        Print the shell line and do nothing else.
    wait : bool
        Return when the run is over; otherwise at once, and `Run.wait` follows it later.
    check : bool
        Raise `RunFailed` where the run fails, so that the cells after it don't go on without it.
        A run that was stopped on purpose is returned.
    site : Site, optional
        Where to run; by default it is detected.
    **options
        Options of the script: ``recipe="warmup", sync_bn=True`` becomes
        ``--recipe warmup --sync-bn``.

    Returns
    -------
    Run or None
        None for a dry run.

    Raises
    ------
    JobError, SiteError
        If the script is not there, or the site cannot hold that many workers.
    RunFailed
        If the run fails, unless `check` is False.
    """
    cwd = os.getcwd()
    job = Job(script=resolve_script(script, cwd), args=(*args, *option_arguments(options)),
              workers=workers, cwd=cwd, name=name or "", threads=threads, timeout_s=timeout_s,
              oversubscribe=oversubscribe)
    site = site or Site.detect()
    if dry_run:
        print(plan(job, site, run_id="dry-run", folder=runs_dir() / "dry-run").shell_line)
        return None
    run = start(job, site)
    if not wait:
        return run
    run.wait()
    if check and run.state in ("failed", "lost"):
        raise RunFailed(run)
    return run


class _OneLine:
    """An exception that a notebook shows as one line: the launcher's frames would say nothing."""

    def _render_traceback_(self):  # asked for by IPython
        return [f"{type(self).__name__}: {self}"]


class RunFailed(_OneLine, RuntimeError):
    """A run failed. What happened has been shown already: this says it in one sentence."""

    def __init__(self, run):
        super().__init__(f"run {run.id}: {run.failure.sentence}")
        self.run = run


class RunInterrupted(_OneLine, KeyboardInterrupt):
    """The cell (or the terminal) was interrupted, and the run was stopped."""

    def __init__(self, run):
        super().__init__(f"run {run.id} was stopped, and none of its processes is left")
        self.run = run


def start(job, site):
    """Write the run folder and start the job's processes; return the `Run` without waiting."""
    run_id, folder = _new_folder()
    planned = plan(job, site, run_id=run_id, folder=folder, created=time.time())
    for path, text in planned.files:
        path.write_text(text)
    paths = RunFolder(folder)
    paths.command.chmod(0o755)
    # The launcher holds one end of this pipe: when it dies, even by SIGKILL, the run ends.
    read_end, write_end = os.pipe()
    environment = {**os.environ, **dict(planned.environment), "DDL_LIFELINE": str(read_end)}
    try:
        with open(paths.launcher_log, "wb") as log:
            process = subprocess.Popen(
                planned.argv, cwd=planned.cwd, env=environment, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT, pass_fds=(read_end,),
                start_new_session=True,  # Ctrl-C is for the launcher, which then stops the run
            )
    finally:
        os.close(read_end)
    return Run(folder, process, write_end)


def _new_folder():
    """Make a run folder that nothing else has: a readable time and a few random letters."""
    while True:
        run_id = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        folder = runs_dir() / run_id
        try:
            folder.mkdir(parents=True)
            return run_id, folder
        except FileExistsError:
            continue


class Run:
    """One run, going on or over; all that it knows is in its folder.

    Attributes
    ----------
    id, name : str
    folder : Path
    job : dict
        What was asked for (``job.json``).
    """

    recorded = False

    def __init__(self, folder, process=None, lifeline=None):
        self.folder = Path(folder)
        self._paths = RunFolder(self.folder)
        self._process = process
        self._lifeline = lifeline
        self.job = read_json(self._paths.job) or {}
        self.id = self.job.get("id", self.folder.name)
        self.name = self.job.get("name", self.folder.name)

    def __del__(self):
        # The notebook let go of this object, not of the run: it goes on until the kernel ends,
        # so the pipe stays open. Only a finished run's end of it is closed.
        if self._lifeline is not None and self._process.poll() is not None:
            os.close(self._lifeline)

    # ------------------------------------------------------------ looking

    def progress(self):
        """Return a `Progress`: everything that can be known now."""
        self._notice_death()
        return progress_of(self.folder, alive=self._alive())

    @property
    def state(self):
        """queued, starting, running, training, done, failed, stopped or lost."""
        return self.progress().state

    @property
    def failure(self):
        """What went wrong (`Failure`), or None."""
        return self.progress().failure

    @property
    def result(self):
        """What the script recorded at its end, as a dictionary; None without one."""
        return read_json(self._paths.result)

    def events(self):
        """Return all events that the script has recorded so far, as dictionaries."""
        return read_json_lines(self._paths.events)

    @property
    def history(self):
        """The evaluations so far, one row each, as a pandas data frame."""
        import pandas

        rows = [{key: value for key, value in event.items() if key not in ("event", "time")}
                for event in self.events() if event["event"] == "evaluation"]
        return pandas.DataFrame(rows)

    def logs(self, rank=0):
        """Return all that one rank has printed."""
        path = self._paths.log(rank)
        if not path.exists():
            there = sorted(file.name for file in self.folder.glob("rank-*.log"))
            raise FileNotFoundError(f"run {self.id} has no log of rank {rank}; there are: "
                                    f"{', '.join(there) or 'none'}")
        return path.read_text(errors="replace")

    def __repr__(self):
        from ddl.view import summary

        return summary(self.progress())

    def _repr_html_(self):
        from ddl.view import summary_html

        return summary_html(self.progress())

    # ------------------------------------------------------------ following and stopping

    def wait(self, view=None):
        """Show the run until it is over; interrupting this stops the run.

        Returns
        -------
        Run
            This run, whichever way it ended.
        """
        if view is None:
            from ddl import view as views

            view = views.of(self)
        try:
            while not (progress := self.progress()).over:
                view.update(progress)
                time.sleep(POLL_S)
        except KeyboardInterrupt:
            self.stop()
            view.close(self.progress())
            raise RunInterrupted(self) from None
        self._reap()
        view.close(progress)
        return self

    def _reap(self):
        """Wait for the launcher's last breath after it has written down the run's end."""
        deadline = time.monotonic() + STOP_GRACE_S
        while processes.of_run(self.id) and time.monotonic() < deadline:
            time.sleep(POLL_S / 4)
        processes.end(self.id)
        if self._process:
            self._process.wait()

    def stop(self):
        """End the run and wait until its processes are gone. A run that is over stays as it is."""
        if self.progress().over:
            return
        pid = self._launcher_pid()
        if pid:
            processes.send(pid, signal.SIGTERM)
            deadline = time.monotonic() + STOP_GRACE_S
            while time.monotonic() < deadline and not self._ended():
                time.sleep(POLL_S / 4)
        self._reap()
        if not self._ended():
            self._record_end({"state": "stopped", "reason": "stopped"})

    def _launcher_pid(self):
        if self._process:
            return self._process.pid
        launched = next((event for event in read_json_lines(self._paths.launcher)
                         if event["event"] == "launched"), None)
        return launched["pid"] if launched and launched["pid"] in processes.of_run(self.id) else 0

    def _alive(self):
        if self._process:
            return self._process.poll() is None
        return bool(processes.of_run(self.id)) if not self._ended() else False

    def _ended(self):
        return any(event["event"] == "ended" for event in read_json_lines(self._paths.launcher))

    def _notice_death(self):
        """Write down the end of a launcher that could not do so itself."""
        status = self._process.poll() if self._process else None
        if status is not None and not self._ended():
            processes.end(self.id)
            if status < 0:
                self._record_end({"state": "failed", "reason": "launcher killed",
                                  "signal": signal.Signals(-status).name})
            else:
                text = self._paths.launcher_log.read_text(errors="replace").strip()
                self._record_end({"state": "failed", "reason": "launch",
                                  "message": text.splitlines()[-1] if text else f"exit {status}"})

    def _record_end(self, fields):
        append_json_line(self._paths.launcher, {"event": "ended", "time": time.time(), **fields})


def runs():
    """Return all runs in the runs folder, the oldest first."""
    folder = runs_dir()
    return [Run(path.parent) for path in sorted(folder.glob("*/job.json"))]


def attach(run_id):
    """Return a run by its id (or the beginning of it), wherever it was started from.

    Call `Run.wait` to follow one that is still going.

    Raises
    ------
    LookupError
        If no run, or more than one, has an id that begins so.
    """
    found = sorted(path.parent for path in runs_dir().glob(f"{run_id}*/job.json"))
    if len(found) == 1:
        return Run(found[0])
    if not found:
        latest = ", ".join(run.id for run in runs()[-3:]) or "none yet"
        raise LookupError(f"no run {run_id!r} in {runs_dir()}; the latest are: {latest}")
    raise LookupError(f"{run_id!r} is the beginning of {len(found)} runs: "
                      f"{', '.join(path.name for path in found)}")


def run_pasted(arguments):
    """Run a planned command that was pasted into a terminal; return its exit status."""
    job = job_of(arguments, os.getcwd())
    if job is None:
        print("ddl.horovodrun: not a command that this package planned. To run a script, type:\n"
              "  ddl run --workers 2 SCRIPT [ARGUMENT ...]")
        return 2
    try:
        run = start(job, Site.detect()).wait()
    except KeyboardInterrupt:
        return 130
    return 0 if run.state == "done" else 1
