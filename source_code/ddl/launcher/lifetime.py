"""The processes behind a run's folder: whether they live, how they are stopped, and the record of their end."""

import contextlib
import signal
import subprocess
import time
from typing import Any

from ddl.launcher import processes, slurm
from ddl.launcher.failure import SLURM_ENDS
from ddl.launcher.processes import wait_until
from ddl.launcher.progress import EVENT, end_of, launcher_events
from ddl.records.folder import RunFolder, StorageError, processes_of
from ddl.records.jsonfiles import FULL, is_full, read_json_lines
from ddl.records.log import last_lines

POLL_S = 0.2
STOP_GRACE_S = 6.0  # ranks end within a second or two; after this their launcher is ended
CANCEL_GRACE_S = 60.0  # Slurm sends SIGTERM, and SIGKILL after KillWait, usually 30 s


class Lifetime:
    """The lifetime of one run, as seen from any process; `process` is its launcher where this process started it.

    `unrecorded` are events that found no room on the disk, and `unwritten` says why.
    """

    def __init__(self, folder: RunFolder, job: dict, process: subprocess.Popen | None = None) -> None:
        self._folder, self._job, self._process = folder, job, process
        self._id = folder.path.name
        self.unrecorded: list[dict] = []
        self.unwritten: StorageError | None = None
        site = job.get("site", {})
        queued = site.get("scheduler") == "slurm" and not site.get("allocation")  # job steps are not queued
        self._queue = slurm.SlurmJob(self._id) if queued else None

    # ------------------------------------------------------------ looking

    def look(self) -> tuple[bool, str]:
        """Return whether the run goes on, and what it waits for; record an end that nobody else has recorded."""
        job = self._look_at_queue()
        self._notice_death(job)
        alive = self._alive(job)
        waiting = job.waiting if job else ""
        if alive and not job:
            with contextlib.suppress(OSError):
                waiting = self._folder.waiting.read_text()  # for cores
        return alive, waiting

    def pause(self) -> None:
        """Wait a moment; less if our process ends meanwhile."""
        if self._process and self._process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(POLL_S)
        else:
            time.sleep(POLL_S)

    def _look_at_queue(self, fresh: bool = False) -> slurm.JobState | None:
        """The job's state in Slurm, unless it doesn't matter: while our srun visibly runs ranks."""
        if not self._queue or self._settled():
            return None
        if self._process and self._process.poll() is None and self._folder.rank(0).exists():
            return None
        try:
            return self._queue.state(fresh=fresh)
        except slurm.SlurmError:
            return None  # the controller doesn't answer for a while: the files have to do

    # ------------------------------------------------------------ ending

    def await_end(self) -> None:
        """Wait until the launcher is gone, after it has recorded the run's end."""
        grace_s = CANCEL_GRACE_S if self._queue else STOP_GRACE_S
        wait_until(lambda: not processes.of_run(self._id), grace_s)
        processes.end(self._id)
        if self._process:
            self._process.wait()
        if self._queue:
            wait_until(self._settled_with_slurm, CANCEL_GRACE_S, POLL_S)

    def stop(self) -> None:
        """End the run and wait until its processes are gone."""
        if self._queue and self._queue.cancel():
            wait_until(self._cancelled, CANCEL_GRACE_S, POLL_S)
        elif pid := self._launcher_pid():
            # An srun asks whether SIGINT was meant; to other launchers SIGTERM leaves time for a checkpoint.
            of_slurm = self._job.get("site", {}).get("scheduler") == "slurm"
            processes.send(pid, signal.SIGTERM if of_slurm else signal.SIGINT)
            # One that has only just started ends without a record.
            wait_until(lambda: bool(self._end()) or pid not in processes.of_run(self._id), STOP_GRACE_S)
        self.await_end()
        self._record_end(state="stopped", reason="stopped")

    def make_room(self) -> None:
        """Ask the launcher to end the run, after its ranks have written a checkpoint if they can."""
        if pid := self._launcher_pid():
            processes.send(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the run without asking its processes first."""
        if self._queue:
            with contextlib.suppress(slurm.SlurmError):
                self._queue.cancel()
        processes.end(self._id, grace_s=0.1)
        self._record_end(state="stopped", reason="killed")

    def _cancelled(self) -> bool:
        state = self._queue and self._queue.state(fresh=True)
        return not (state and state.active)

    def _launcher_pid(self) -> int:
        """The process to ask for an end; 0 if it is gone."""
        if self._process:
            return self._process.pid
        events = read_json_lines(self._folder.launcher, EVENT)
        pid = next((event["pid"] for event in events if event["event"] == "launched"), 0)
        return pid if pid in processes.of_run(self._id) else 0

    def _alive(self, job: slurm.JobState | None) -> bool:
        if self._process:
            return self._process.poll() is None
        if self._queue:
            return bool(job and job.active)
        return not self._end() and bool(processes.of_run(self._id))

    def _end(self) -> dict | None:
        return end_of([*read_json_lines(self._folder.launcher, EVENT), *self.unrecorded])

    def _events(self) -> list[dict]:
        return [*launcher_events(self._folder, processes_of(self._job), alive=False), *self.unrecorded]

    def _settled(self) -> bool:
        """Whether the run's end is recorded for good."""
        end = self._end()
        return end is not None and (not self._queue or "job" in end)

    def _settled_with_slurm(self) -> bool:
        self._notice_death(self._look_at_queue(fresh=True))
        return self._settled()

    def _notice_death(self, job: slurm.JobState | None) -> None:
        """Record an end that the launcher could not record or explain."""
        if self._settled():
            return
        status = self._process.poll() if self._process else None
        if self._queue:
            if (status is not None or not self._process) and not (job and job.active):
                self._settle(self._queue)
        elif status is not None and not end_of(self._events()):
            processes.end(self._id)
            if status < 0:
                self._record_end(state="failed", reason="launcher killed", signal=signal.Signals(-status).name)
            elif status == 0 or is_full(self._folder.path):  # it knew, but could not record it
                self._record_end(state="failed" if status else "done", reason="storage")
            else:
                self._record_launch_failure(status)

    def _settle(self, queue: slurm.SlurmJob) -> None:
        """Record how the job ended according to Slurm, beside what the ranks recorded."""
        try:
            job = queue.ended()
        except slurm.SlurmError:
            return  # asked again next time
        if job and job.active:
            return
        events = self._events()
        end = end_of(events) or {}
        if job and (events or job.state != "FAILED"):
            self._record_end(**_end_by_slurm(job, end))
        elif job:
            self._record_launch_failure(1, job=job.id)
        elif end:  # Slurm has forgotten it
            self._record_end(**end | {"job": ""})
        elif self._process:
            self._record_launch_failure(self._process.returncode, job="")

    def _record_launch_failure(self, status: int, **fields: Any) -> None:
        lines = last_lines(self._folder.launcher_log, 100)
        message = lines[-1] if lines else f"exit {status}"
        self._record_end(state="failed", reason="launch", log="\n".join(lines), message=message, **fields)

    def _record_end(self, **fields: Any) -> None:
        end = {"event": "ended", "time": time.time(), **fields}
        try:
            self._folder.append(self._folder.launcher, end)
        except StorageError as error:
            self.unwritten = error
            why = {"reason": "storage"} if error.errno in FULL else {}
            self.unrecorded.append({**why, **end})  # known as long as this process lives
        self._folder.free_reserved_space()


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
