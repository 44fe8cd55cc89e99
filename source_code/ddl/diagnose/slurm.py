"""Checks of a site file against Slurm.

Commands are asked for machine-readable output (``sinfo -h -o``); their error messages are passed on unchanged.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from ddl.diagnose.report import Check, missing
from ddl.launcher.job import Job, resolve_script
from ddl.launcher.plan import plan
from ddl.launcher.site import Site
from ddl.launcher.sitefile import seconds
from ddl.launcher.slurm import gpus_in
from ddl.records.paths import runs_dir
from ddl.text import plural

COMMANDS = ("srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
# Node states (`man sinfo`) in which a job can start now or when others end.
USABLE = "allocated completing idle mixed planned powered_down powering_down powering_up reserved".split()
PATIENCE_S = 30


@dataclass(frozen=True)
class Answer:
    """A command's answer: whether it failed, its output, and its message."""

    refused: bool
    text: str
    words: str


def ask(*argv: str) -> Answer:
    """Run a short command and return its answer."""
    try:
        asked = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return Answer(True, "", f"{argv[0]} is not installed")
    except subprocess.TimeoutExpired:
        return Answer(True, "", f"{argv[0]} did not answer within {PATIENCE_S} s")
    words = " ".join(asked.stderr.split()) or " ".join(asked.stdout.split())
    return Answer(asked.returncode != 0, asked.stdout, words or f"exit {asked.returncode}")


def slurm_checks(site: Site) -> list[Check]:
    """Check Slurm's commands, the partition, and whether Slurm would accept a job."""
    lacking = [name for name in COMMANDS if not shutil.which(name)]
    if lacking:
        return [missing("Slurm commands", f"not found: {', '.join(lacking)}", "run this on a login node")]
    installed = Check("Slurm commands", "OK", "installed")
    return [installed] if site.allocation else [installed, _partition(site), _request(site)]


@dataclass(frozen=True)
class _Node:
    """A node in a partition: one line of ``sinfo -N``."""

    name: str
    partition: str
    available: str
    state: str
    cores: str
    gres: str
    time_limit: str

    def fits(self, site):
        """Return whether the node has the cores and GPUs that the site states."""
        return int(self.cores) >= site.cores_per_node and gpus_in(self.gres, site.gpu_type) >= site.gpus_per_node

    @property
    def usable(self):
        """Whether jobs can start on the node; a state that ends in * means that it does not respond."""
        return self.state.rstrip("~#!%$@^+-") in USABLE

    @property
    def has(self):
        gres = "" if self.gres == "(null)" else f" and {self.gres}"
        return f"{self.cores} cores{gres}"


def _partition(site):
    name = "Slurm partition"
    answer = ask("sinfo", "-h", "-N", "-o", "%N|%P|%a|%T|%c|%G|%l")
    if answer.refused:
        return missing(name, answer.words, "make `sinfo` work first")
    nodes = [_Node(*line.split("|")) for line in answer.text.splitlines()]
    default = next((node.partition for node in nodes if node.partition.endswith("*")), "")
    wanted = (site.partition or default.rstrip("*")).split(",")
    members = [node for node in nodes if node.partition.rstrip("*") in wanted]
    known = ", ".join(dict.fromkeys(node.partition.rstrip("*") for node in nodes)) or "none"
    if not members:
        unknown = f'"{site.partition}" does not exist, or you may not use it'
        what = unknown if site.partition else "not set, and Slurm has no default"
        return missing(name, what, f"partition = one of: {known}")
    if all(node.available != "up" for node in members):
        what = f"{members[0].partition.rstrip('*')} is {members[0].available}"
        return missing(name, what, f"wait until it is up, or use another of: {known}")
    limit = members[0].time_limit
    if re.fullmatch(r"[\d:-]+", limit) and seconds(site.time_limit) > seconds(limit):
        what = f'time_limit = "{site.time_limit}" is more than its {limit}'
        return missing(name, what, f'time_limit = "{limit}" or less')
    members = list({node.name: node for node in members}.values())
    kinds = ", or ".join(dict.fromkeys(node.has for node in members))
    counts = {node.state: sum(node.state == other.state for other in members) for node in members}
    states = ", ".join(f"{count} {state}" for state, count in counts.items())
    detail = f"{','.join(wanted)}: {len(members)} nodes ({states}) with {kinds}; time limit {limit}"
    fitting = [node for node in members if node.fits(site)]
    if len(fitting) < site.nodes:
        advice = "correct nodes, cores_per_node, gpus_per_node or gpu_type in the site file"
        return missing(name, f"{detail}: {len(fitting)} of them have what the site file states", advice)
    up = sum(node.usable for node in fitting)
    if up < site.nodes:
        advice = "wait for the others (`sinfo -R` shows why they are down), or use fewer nodes"
        return missing(name, f"{detail}: {up} of them can be used now", advice)
    return Check(name, "OK", detail)


def _request(site):
    """Ask Slurm whether it would accept the largest job, with all the options of a real one."""
    name, cwd = "Slurm's answer", os.getcwd()
    job = Job(resolve_script("hello.py", cwd), workers=site.slots * site.nodes, nodes=site.nodes, cwd=cwd)
    argv = plan(job, site, run_id="doctor", folder=runs_dir() / "doctor").argv
    at = argv.index("srun") + 1
    answer = ask(*argv[:at], "--test-only", *argv[at:])
    detail = f"to a job of {job.workers} workers on {plural(site.nodes, 'node')}: {answer.words}"
    if answer.refused:
        return missing(name, detail, "correct the key of the site file that Slurm's message is about")
    return Check(name, "OK", detail)
