"""Slurm jobs: submit, watch and cancel a run's job, and find the job that this process runs in."""

import os
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddl.errors import CourseError
from ddl.text import plural

# States of a job that is not over (`man squeue`, "JOB STATE CODES").
ACTIVE = frozenset(
    "PENDING CONFIGURING RUNNING COMPLETING SUSPENDED STAGE_OUT SIGNALING REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING "
    "RESV_DEL_HOLD SPECIAL_EXIT STOPPED".split()
)
OF_SLURM = re.compile("(SLURMD?|SBATCH|SALLOC|SRUN|SQUEUE|SACCT|SCANCEL|SINFO|SCONTROL)_")
OF_USER = re.compile("(SLURM|SBATCH)_(CONF|CONF_SERVER|JWT|ACCOUNT|PARTITION|QOS|RESERVATION|CONSTRAINT)$")
ASK_EVERY_S = 2.0  # a controller serves thousands of jobs
PATIENCE_S = 30
# Reasons (`man squeue`, "JOB REASON CODES") for which a job waits until somebody does something.
REFUSED = re.compile("(?i)held|Partition(?!Down|Inactive)|^Invalid|NotAllowed|NotPermitted|BadConstraints")


class SlurmError(CourseError, RuntimeError):
    """Slurm refused a request or did not answer; the message is Slurm's."""


@dataclass(frozen=True)
class JobState:
    """A job's state as Slurm reports it: PENDING, RUNNING, TIMEOUT, OUT_OF_MEMORY, ...

    `reason` is why it waits or ended, and `start` its expected start as an ISO time; each is empty if Slurm does not
    report it.
    """

    id: str
    state: str
    reason: str = ""
    start: str = ""
    nodes: str = ""

    @property
    def active(self) -> bool:
        """Whether the job waits or runs."""
        return self.state in ACTIVE

    @property
    def waiting(self) -> str:
        """A sentence about what the job waits for; empty unless it waits."""
        if self.state != "PENDING":
            return ""
        more = f", expected to start at {self.start.replace('T', ' ')}" if self.start else ""
        if REFUSED.search(self.reason):
            more = f"; it will not start by itself: try `scontrol release {self.id}`, or `scancel {self.id}` to end it"
        return f"Slurm job {self.id} waits: {self.reason}{more}"


@dataclass(frozen=True)
class Allocation:
    """The Slurm job that this process already runs in.

    `node` is empty on a host outside the allocation, such as the login node where ``salloc`` was typed. Cores and GPUs
    are the fewest that any of the nodes provides; None if Slurm does not report them.
    """

    job: str
    nodes: int
    node: str = ""
    cores_per_node: int | None = None
    gpus_per_node: int | None = None

    @classmethod
    def here(cls) -> "Allocation | None":
        """Return the allocation that this process is in, or None; raise SlurmError if its job is over."""
        job = os.environ.get("SLURM_JOB_ID")
        if not job:
            return None
        given, here = _gpus_of_active(job), _least("SLURM_GPUS_ON_NODE")
        return cls(
            job=job,
            nodes=_least("SLURM_JOB_NUM_NODES") or 1,
            node=os.environ.get("SLURMD_NODENAME", ""),
            cores_per_node=_least("SLURM_JOB_CPUS_PER_NODE"),
            gpus_per_node=given if here is None else here,
        )

    @property
    def around(self) -> bool:
        """Whether the allocation is just the node that this process is on."""
        return self.nodes == 1 and bool(self.node)

    def __str__(self) -> str:
        where = f"on {self.node}" if self.around else f"on {plural(self.nodes, 'node')}"
        return f"inside Slurm job {self.job} {where}"


def _least(name: str) -> int | None:
    """Return the smallest number in a variable such as ``4``, ``8(x2)`` or ``72(x2),36``; None if it is not set."""
    counts = re.findall(r"(?:^|,)(\d+)", os.environ.get(name, ""))
    return min(map(int, counts), default=None)


def _gpus_of_active(job: str) -> int | None:
    """Return how many GPUs per node a job was given; None if it has none or Slurm does not answer.

    In a shell opened by ``salloc``, no variable has this number. Raises SlurmError if the job is over.
    """
    try:
        rows = _table("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T")
    except SlurmError as error:
        if "Invalid job id" not in str(error):
            return None
        rows = []  # Slurm has forgotten the job
    if not any(state in ACTIVE for (state,) in rows):
        raise SlurmError(f"Slurm job {job} is over: leave this shell, or unset SLURM_JOB_ID")
    # One line for each group of equal nodes. (squeue does not show what --gpus and --gpus-per-task have got.)
    try:
        details = _ask(["scontrol", "show", "job", "--details", job])
    except SlurmError:
        return None
    return min(map(_gpus_of_node, re.findall(r"^ *Nodes=.*? GRES=(\S*)", details, re.MULTILINE)), default=0) or None


def _gpus_of_node(resources: str) -> int:
    """Return the number of GPUs among generic resources, such as ``gpu:a100:2(IDX:0-1),shard:4``."""
    found = re.findall(r"(?:^|,)(?:gres[:/])?gpu(?:[:=][^:=,(]+)??(?:[:=](\d+))?(?=[,(]|$)", resources)
    return sum(int(count or 1) for count in found)


def require_configuration() -> None:
    """Raise SlurmError if ``SLURM_CONF`` names no file: each of Slurm's commands would look for it for a minute."""
    if (path := os.environ.get("SLURM_CONF")) and not os.path.isfile(path):
        raise SlurmError(f"SLURM_CONF names {path}, which is not a file: correct or unset it")


def job_name(run_id: str) -> str:
    """Return the name of a run's job, by which it is found before its id is known."""
    return f"ddl-{run_id}"


def submit(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> str:
    """Run a planned ``sbatch --parsable`` and return the job's id."""
    return _ask(argv, cwd=cwd, env=environment).strip().split(";")[0]


class SlurmJob:
    """The job of one run, found by name."""

    def __init__(self, run_id: str) -> None:
        self.name = job_name(run_id)
        self._asked: float | None = None
        self._state: JobState | None = None
        self._silent: SlurmError | None = None  # the last question had no answer

    def state(self, fresh: bool = False) -> JobState | None:
        """Return the job's state, at most `ASK_EVERY_S` old; None if Slurm has no such job.

        Raises SlurmError if Slurm did not answer.
        """
        if fresh or self._asked is None or time.monotonic() - self._asked >= ASK_EVERY_S:
            self._asked, self._silent = time.monotonic(), None
            try:
                self._state = self._squeue()
            except SlurmError as error:
                self._silent = error
        if self._silent:
            raise self._silent
        return self._state

    def ended(self) -> JobState | None:
        """Return how the job ended; None if Slurm has forgotten it."""
        state = self.state(fresh=True)
        account = self._sacct()
        if account and state and account.id == state.id and state.state != account.state:
            return state  # accounting lags behind
        return account or state

    def cancel(self) -> bool:
        """Cancel the job if it waits or runs; return whether it did."""
        state = self.state(fresh=True)
        if not (state and state.active):
            return False
        _ask(["scancel", state.id])
        return True

    def _squeue(self) -> JobState | None:
        this_job = (f"--user={os.getuid()}", f"--name={self.name}")
        rows = _table("squeue", "--noheader", "--states=all", *this_job, "--format=%i|%T|%r|%S|%N")
        if not rows:
            return None
        number, state, reason, start, nodes = max(rows, key=lambda row: int(row[0]))
        reason = "" if reason == "None" else reason
        return JobState(number, state, reason, start if state == "PENDING" and start != "N/A" else "", nodes)

    def _sacct(self) -> JobState | None:
        """Return the state from accounting; None if this cluster keeps none."""
        options = ("--parsable2", "--allocations", "--duplicates", "--format=JobID,State,NodeList")
        try:
            rows = _table("sacct", "--noheader", f"--name={self.name}", *options)
        except SlurmError:
            return None
        if not rows:
            return None
        number, state, nodes = rows[-1]
        return JobState(number, state.partition(" by ")[0], nodes=nodes)  # CANCELLED by 1000


def own_environment(environment: Mapping[str, str] = os.environ, job: str = "") -> dict[str, str]:
    """Return an environment without what Slurm sets in its jobs and what changes the answers of its commands.

    A shell that was opened inside a job, such as one in tmux, keeps the variables of that job: options for srun and
    sbatch, a binding to cores. A user's choices of an account or a queue stay. In the allocation `job`,
    everything stays, because a step of it needs them.
    """
    if job:
        return dict(environment)
    return {name: value for name, value in environment.items() if not OF_SLURM.match(name) or OF_USER.match(name)}


def _table(*command: str) -> list[list[str]]:
    """Run a Slurm command and return the fields of each line that it prints."""
    return [line.split("|") for line in _ask(command).splitlines()]


def _ask(argv: Sequence[str], **options: Any) -> str:
    try:
        options.setdefault("env", own_environment())
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, **options)
    except FileNotFoundError:
        raise SlurmError(
            f"{argv[0]} is not on this machine's path: run this on a host where you can submit jobs"
        ) from None
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{argv[0]} did not answer within {PATIENCE_S} s") from None
    if answer.returncode:
        raise SlurmError(" ".join(answer.stderr.split()) or f"exit status {answer.returncode}")
    return answer.stdout
