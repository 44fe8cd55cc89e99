"""From a job and a site to the exact command: no side effects, so it can be read and tested.

A command is built in layers, each a function that puts its own words in front of the next::

    scheduler [ container [ horovodrun [ ddl.rank [ script ] ] ] ]

On this machine the outer two are empty. A scheduler or a container adds a layer here, and nothing
else changes.
"""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ddl.job import Job
from ddl.record import RunFolder

__all__ = ["Plan", "job_of", "plan"]

# Ranks that import on a busy or cold machine can start minutes apart; Gloo's own limit is 30 s.
GLOO_TIMEOUT_S = 180


@dataclass(frozen=True)
class Plan:
    """What starting a run means: the command, where, with what, and what is written first."""

    argv: tuple[str, ...]
    cwd: str
    environment: tuple[tuple[str, str], ...]
    files: tuple[tuple[Path, str], ...]

    @property
    def shell_line(self):
        """The line that, pasted into a terminal, runs the same command."""
        return f"cd {shlex.quote(self.cwd)} && {shlex.join(self.argv)}"


def plan(job, site, *, run_id, folder, created=0.0):
    """Plan a run.

    Parameters
    ----------
    job : Job
    site : Site
    run_id : str
        Every process of the run carries it as ``DDL_RUN_ID``.
    folder : Path
        The run's folder, which its ranks know as ``DDL_RUN_DIR``.
    created : float
        Time of the launch, in seconds since the epoch.

    Returns
    -------
    Plan

    Raises
    ------
    SiteError
        If the site cannot hold the job.
    """
    site.check(job)
    argv = (*_horovodrun(job, site), *_rank(job, site))
    shell = Plan(argv, job.cwd, (), ()).shell_line
    described = {
        "id": run_id, "name": job.name, "created": created,
        "script": job.script, "args": list(job.args), "workers": job.workers,
        "threads": site.threads_per_rank(job), "cwd": job.cwd, "timeout_s": job.timeout_s,
        "site": {"scheduler": site.scheduler, "container": site.container,
                 "controller": site.controller, "cores_per_node": site.cores_per_node,
                 "gpus_per_node": site.gpus_per_node},
        "argv": list(argv), "shell_line": shell,
    }
    paths = RunFolder(Path(folder))
    return Plan(
        argv=argv,
        cwd=job.cwd,
        environment=(("DDL_RUN_ID", run_id), ("DDL_RUN_DIR", str(folder))),
        files=(
            (paths.job, json.dumps(described, indent=1) + "\n"),
            (paths.command, f"#!/bin/sh\n{shell}\n"),
        ),
    )


def _horovodrun(job, site):
    timeout = ("--timeout-s", f"{job.timeout_s:g}") if job.timeout_s else ()
    return (
        site.python or sys.executable, "-m", "ddl.horovodrun", *timeout, f"--{site.controller}",
        # All ranks are on this host. Left to itself, horovodrun takes any interface that is up, and
        # a laptop's may go away in the middle of a run.
        "--network-interfaces", "lo",
        "--gloo-timeout-seconds", str(GLOO_TIMEOUT_S), "-np", str(job.workers),
    )


def _rank(job, site):
    return (
        site.python or sys.executable, "-m", "ddl.rank", "--threads", str(site.threads_per_rank(job)),
        job.script, *job.args,
    )


def job_of(argv, cwd):
    """Read the job back out of a planned command, for a line pasted into a terminal.

    Parameters
    ----------
    argv : sequence of str
        The words after ``ddl.horovodrun``.

    Returns
    -------
    Job or None
        None where the command was not planned here (its ranks do not start with ``ddl.rank``).
    """
    argv = list(argv)
    try:
        at = argv.index("ddl.rank")
        workers = int(argv[argv.index("-np") + 1])
        flag, threads, script, *args = argv[at + 1:]
    except (ValueError, IndexError):
        return None
    if flag != "--threads":
        return None
    timeout_s = float(argv[1]) if argv[0] == "--timeout-s" else None
    return Job(script=script, args=tuple(args), workers=workers, cwd=cwd, threads=int(threads),
               timeout_s=timeout_s, oversubscribe=True)
