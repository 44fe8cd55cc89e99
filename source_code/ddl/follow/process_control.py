"""Control the processes of a run: find out whether they are alive, stop them, and record how they ended."""

import contextlib
import os
import pwd
import re
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddl.errors import InputError
from ddl.follow import processes
from ddl.follow.failure import SLURM_ENDS
from ddl.follow.processes import wait_until
from ddl.follow.progress import end_of, launcher_events
from ddl.follow.restarts import OF_LAUNCHER
from ddl.job import slurm
from ddl.job.timeouts import TERM_GRACE_S
from ddl.records import files
from ddl.records.folder import RunFolder, StorageError, ranks_of
from ddl.records.jsonfiles import DamagedFile, is_full, read_json_lines
from ddl.records.log import last_lines

# Lines of an srun that could not start its tasks: no configuration; a prolog or a node that failed.
NO_JOB = re.compile("^srun: (fatal: |error: (Task|Application) launch (for .*)?failed)")
POLL_S = 0.2
STOP_GRACE_S = 6.0  # ranks that don't handle SIGTERM end within a second or two; after this their supervisor is killed
CANCEL_GRACE_S = 60.0  # Slurm sends SIGTERM, and SIGKILL after KillWait, usually 30 s


class ProcessControl:
    """Controls the processes of one run from any process; `process` is its supervisor if this process started it."""

    def __init__(self, folder: RunFolder, job: dict, process: subprocess.Popen | None = None) -> None:
        self._folder, self._job, self._process = folder, job, process
        self._id = folder.path.name
        self.silent = ""  # why Slurm did not answer, if it didn't
        self.owner = _owner_of(folder.path)
        site = job.get("site", {})
        self._on_slurm = site.get("scheduler") == "slurm"
        queued = self._on_slurm and not site.get("allocation")  # job steps are not queued
        self._queue = slurm.SlurmJob(self._id) if queued else None

    # ------------------------------------------------------------ looking

    def look(self) -> tuple[bool, str]:
        """Return whether the run is alive and what it waits for; record its end if it is not recorded yet."""
        try:
            job = self._look_at_queue()
            self._notice_death(job)
            alive = self._alive(job)
        except DamagedFile:  # whose name a snapshot has
            return False, ""
        if job or not alive:
            return alive, job.waiting if job else ""
        with contextlib.suppress(OSError):
            return True, files.read(self._folder.waiting).decode()  # for its turn on shared cores
        return True, ""

    def pause(self) -> None:
        """Wait a moment, or until the supervisor ends."""
        if self._process and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                _await_process(self._process, POLL_S)
        else:
            time.sleep(POLL_S)

    def _look_at_queue(self, fresh: bool = False) -> slurm.JobState | None:
        """Return the job's state in Slurm; None if it doesn't matter because this process's srun is running ranks."""
        if not self._queue or self._has_ended():
            return None
        if self._process and self._process.poll() is None and self._folder.rank(0).exists():
            return None
        if status := self._process and self._process.poll():
            lines = last_lines(self._folder.launcher_log, 100)
            if why := next(filter(NO_JOB.search, lines), ""):  # no need to ask Slurm, which may not answer
                self._record_launch_failure(status, message=why, job="")
                return None
        self.silent = ""
        try:
            return self._queue.state(fresh=fresh)
        except slurm.SlurmError as error:
            self.silent = str(error)
            return None

    # ------------------------------------------------------------ ending

    def await_end(self) -> None:
        """Wait until the supervisor has recorded the run's end and is gone."""
        grace_s = CANCEL_GRACE_S if self._queue else self._stop_grace_s()
        wait_until(lambda: not processes.of_run(self._id), grace_s)
        processes.end(self._id)
        if self._process:
            self._process.wait()
        if self._queue:
            wait_until(self._has_ended_in_slurm, CANCEL_GRACE_S, POLL_S)

    def stop(self) -> None:
        """End the run and wait until its processes are gone; InputError if it is another user's."""
        if self.owner:
            raise InputError(f"run {self._id} belongs to {self.owner.name}: nobody else can stop it")
        try:
            canceled = self._queue is not None and self._queue.cancel()
        except slurm.SlurmError as error:
            raise slurm.SlurmError(f"nothing was canceled, because Slurm does not answer: {error}") from None
        if canceled:
            wait_until(self._cancelled, CANCEL_GRACE_S, POLL_S)
        elif pid := self._launcher_pid():
            # srun asks for confirmation of a SIGINT; for supervisors, SIGTERM would leave time for a checkpoint.
            processes.send(pid, signal.SIGTERM if self._on_slurm else signal.SIGINT)
            # A supervisor that has just started ends without a record.
            wait_until(lambda: bool(self._end()) or pid not in processes.of_run(self._id), self._stop_grace_s())
        self.await_end()
        self._record_end(state="stopped", reason="stopped")

    def _stop_grace_s(self) -> float:
        """Return how long the run may take to end: longer if ranks handle SIGTERM."""
        ranks = processes.of_run(self._id, mark="DDL_RANKS_OF")
        return STOP_GRACE_S + any(processes.handles_signal(pid, signal.SIGTERM) for pid in ranks) * TERM_GRACE_S

    def make_room(self) -> None:
        """Ask the supervisor to end the run, after its ranks have written a checkpoint if they can."""
        if pid := self._launcher_pid():
            processes.send(pid, signal.SIGTERM)

    def _cancelled(self) -> bool:
        try:
            state = self._queue and self._queue.state(fresh=True)
        except slurm.SlurmError:
            return False
        return not (state and state.active)

    def _launcher_pid(self) -> int:
        """Return the id of the process to ask for an end; 0 if it is gone."""
        if self._process:
            return self._process.pid
        pid = self._launched_pid()
        return pid if pid in processes.of_run(self._id) else 0

    def _launched_pid(self) -> int:
        events = read_json_lines(self._folder.launcher, OF_LAUNCHER)
        return next((event.get("pid", 0) for event in events if event["event"] == "launched"), 0)

    def _alive(self, job: slurm.JobState | None) -> bool:
        if self._process:
            return self._process.poll() is None
        if self._queue:  # without an answer, nothing has changed
            return bool(self.silent and not self._end()) or bool(job and job.active)
        if self.owner:  # the environment of another user's process can't be read, but its owner can
            return not self._end() and _user_of(self._launched_pid()) == self.owner.number
        return not self._end() and bool(processes.of_run(self._id))

    def _end(self) -> dict | None:
        return end_of(read_json_lines(self._folder.launcher, OF_LAUNCHER))

    def _has_ended(self) -> bool:
        """Return whether the run's end is recorded for good."""
        end = self._end()
        return end is not None and (not self._queue or "job" in end)

    def _has_ended_in_slurm(self) -> bool:
        self._notice_death(self._look_at_queue(fresh=True))
        return self._has_ended()

    def _notice_death(self, job: slurm.JobState | None) -> None:
        """Record an end that the supervisor could not record or explain."""
        if self._has_ended():
            return
        status = self._process.poll() if self._process else None
        events = launcher_events(self._folder, ranks_of(self._job), alive=False)
        if self._queue:
            if (status is not None or not self._process) and not (job and job.active) and not self.silent:
                self._record_end_of_job(self._queue, events)
        elif status is not None and not end_of(events):
            processes.end(self._id)
            if status < 0:
                self._record_end(state="failed", reason="launcher killed", signal=signal.Signals(-status).name)
            elif not is_full(self._folder.path):  # otherwise the supervisor could not record it, and nor can this
                self._record_launch_failure(status)

    def _record_end_of_job(self, queue: slurm.SlurmJob, events: list[dict]) -> None:
        """Record how the job ended according to Slurm, together with what the ranks recorded."""
        try:
            job = queue.ended()
        except slurm.SlurmError:
            return  # asked again next time
        if job and job.active:
            return
        end = end_of(events) or {}
        if job and (any(event["event"] != "submitted" for event in events) or job.state != "FAILED"):
            self._record_end(**_end_by_slurm(job, end))
        elif job:
            self._record_launch_failure(1, job=job.id)
        elif end:  # Slurm has forgotten it
            self._record_end(**end | {"job": ""})
        elif self._process:
            self._record_launch_failure(self._process.returncode, job="")

    def _record_launch_failure(self, status: int, **fields: Any) -> None:
        lines = last_lines(self._folder.launcher_log, 100)
        known = {"message": lines[-1] if lines else f"exit {status}", "log": "\n".join(lines), **fields}
        self._record_end(state="failed", reason="launch", **known)

    def _record_end(self, **fields: Any) -> None:
        if not self._folder.job.exists():  # `ddl rm` is deleting the folder, which must stay empty
            return
        with contextlib.suppress(StorageError):  # then the run counts as lost, and its full disk is named
            self._folder.append(self._folder.launcher, {"event": "ended", "time": time.time(), **fields})


def _await_process(process: subprocess.Popen, timeout_s: float) -> None:
    """Wait until a process has ended; `Popen.wait` with a timeout notices up to 50 ms late."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:  # it has ended, or a kernel before 5.3 or a sandbox has no such call
        process.wait(timeout_s)
        return
    try:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        ended.poll(timeout_s * 1000)
    finally:
        os.close(pidfd)


@dataclass(frozen=True)
class User:
    """Another user of this machine."""

    number: int
    name: str


def _owner_of(folder: Path) -> User | None:
    """Return the owner of a run's folder; None if that is this process's user, or if this process is root's."""
    with contextlib.suppress(OSError):
        number = folder.stat().st_uid
        if os.geteuid() not in (0, number):
            with contextlib.suppress(KeyError):  # no name
                return User(number, pwd.getpwuid(number).pw_name)
            return User(number, f"user {number}")
    return None


def _user_of(pid: int) -> int | None:
    """Return the id of a process's user; None if the process does not exist."""
    try:
        return os.stat(f"/proc/{pid}").st_uid if pid else None
    except OSError:
        return None


def _end_by_slurm(job: slurm.JobState, end: dict) -> dict:
    """Combine Slurm's account of a run's end with the run's own."""
    known = {key: value for key, value in end.items() if key not in ("event", "time")}
    by_slurm = {"job": job.id, "slurm": job.state, "nodes": job.nodes}
    if job.state in SLURM_ENDS and known.get("state") != "done":
        return known | by_slurm | {"state": "failed"}
    if known:
        return known | by_slurm
    if job.state == "CANCELLED":
        return by_slurm | {"state": "stopped", "reason": "canceled"}
    return by_slurm | {"state": "lost" if job.state == "COMPLETED" else "failed"}
