"""Checks of a site file against Slurm.

Commands are asked for machine-readable output (``sinfo -h -o``); their error messages are passed on unchanged.
"""

import os
import re
import shutil
import subprocess
from typing import NamedTuple

from ddl.diagnose.report import Check, missing
from ddl.job.job import Job
from ddl.job.plan import plan
from ddl.job.scripts import resolve_script
from ddl.job.site import Site
from ddl.job.sitefile import seconds
from ddl.job.slurm import SlurmError, own_environment, require_configuration
from ddl.records.paths import runs_dir
from ddl.text import plural

COMMANDS = ("srun", "sbatch", "squeue", "scancel", "scontrol")
PATIENCE_S = 30


class Answer(NamedTuple):
    """A command's answer: whether it failed, its output, its message in one line, and its standard error."""

    refused: bool
    text: str
    words: str
    complaints: str = ""


def ask(*argv: str) -> Answer:
    """Run a short command and return its answer."""
    try:
        options = dict(capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
        asked = subprocess.run(argv, env=own_environment(), **options)
    except FileNotFoundError:
        return Answer(True, "", f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Answer(True, "", f"{argv[0]} did not answer within {PATIENCE_S} s")
    words = " ".join(asked.stderr.split()) or " ".join(asked.stdout.split())
    return Answer(asked.returncode != 0, asked.stdout, words or f"exit {asked.returncode}", asked.stderr)


def slurm_checks(site: Site) -> list[Check]:
    """Check Slurm's commands, and whether Slurm would accept a job."""
    lacking = [name for name in COMMANDS if not shutil.which(name)]
    if lacking:
        return [missing("Slurm commands", f"not found: {', '.join(lacking)}", "run this on a login node")]
    try:
        require_configuration()
    except SlurmError as error:
        return [missing("Slurm commands", str(error), "correct this first")]
    installed = Check("Slurm commands", "OK", "installed")
    return [installed] if site.allocation else [installed, _request(site), *_time_limit(site)]


def _time_limit(site):
    """Compare the time limit with the partition's: srun --test-only accepts a longer one, and the job waits forever."""
    if not (site.partition and site.time_limit):
        return
    most = re.search(r"\bMaxTime=(\S+)", ask("scontrol", "--oneliner", "show", "partition", site.partition).text)
    if most and most[1] != "UNLIMITED" and seconds(site.time_limit) > seconds(most[1]):
        detail = f"partition {site.partition} allows {most[1]}: a job of {site.time_limit} would wait forever"
        yield missing("time limit", detail, f'set time_limit = "{most[1]}" or less')


def _request(site):
    """Ask Slurm whether it would accept the largest job, with all the options of a real one."""
    name, cwd = "Slurm's answer", os.getcwd()
    job = Job(resolve_script("hello.py", cwd), workers=site.slots * site.nodes, nodes=site.nodes, cwd=cwd)
    argv = plan(job, site, run_id="doctor", folder=runs_dir() / "doctor").argv
    at = argv.index("srun") + 1
    answer = ask(*argv[:at], "--test-only", *argv[at:])
    detail = f"to a job of {job.workers} workers on {plural(site.nodes, 'node')}: {answer.words}"
    if answer.refused:
        advice = "correct the key of the site file that Slurm's message is about; `sinfo` lists partitions"
        return missing(name, detail, advice)
    return Check(name, "OK", detail)
