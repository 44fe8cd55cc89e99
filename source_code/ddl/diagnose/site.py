"""Check a site file against Slurm, the container and the file systems.

Commands are asked for machine-readable output (``sinfo -h -o``, ``scontrol -o``, ``sacctmgr -P``); their error messages
are passed on unchanged.
"""

import getpass
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from ddl.diagnose.report import Check
from ddl.errors import CourseError
from ddl.launcher.job import Job
from ddl.launcher.plan import plan
from ddl.launcher.site import Site
from ddl.launcher.sitefile import seconds
from ddl.records.paths import data_dir, runs_dir, source_dir
from ddl.words import plural

COURSE = source_dir()
COMMANDS = ("srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
PATIENCE_S = 30
HELLO_S = 300  # a cold file system takes minutes to import TensorFlow from
# Node states (`man sinfo`) in which a job can start, now or when others end.
USABLE = "allocated completing idle mixed planned powered_down powering_down powering_up reserved".split()
# Types of file systems that several machines can share.
SHARED = (
    "9p afs beegfs ceph cifs cvmfs2 glusterfs gpfs lustre nfs nfs4 orangefs panfs pvfs2 smb3 virtiofs wekafs".split()
)


def checks(site: Site) -> list[Check]:
    """Check what can be checked without launching a run."""
    found = [_origin(site), _place(site)]
    if site.modules:
        found.append(_modules(site))
    if site.scheduler == "slurm":
        found.append(_commands())
        if found[-1].state == "OK" and not site.allocation:
            found.append(_partition(site))
            found += [_account(site)] if site.account else []
            found += [_reservation(site)] if site.reservation else []
            found.append(_request(site))
    if site.enters_container:
        found += [_program(site), _image(site)]
    if site.scheduler == "slurm":
        found.append(_folders(site))
    return found


def two_ranks(site: Site) -> Check:
    """Launch `hello.py` on two ranks, if possible on two nodes; say where and how fast they ran, or why not."""
    from ddl.launcher.launch import launch

    name = "two ranks"
    try:
        run = launch(
            COURSE / "hello.py",
            site=site,
            workers=2,
            nodes=min(site.nodes, 2),
            oversubscribe=site.slots * min(site.nodes, 2) < 2,
            timeout_s=HELLO_S,
            check=False,
        )
    except (CourseError, OSError) as error:
        return Check(name, "missing", str(error), "what is missing above may be why")
    if run.state != "done":
        failure = run.failure
        what = filter(None, (failure.sentence, failure.message)) if failure else (run.state,)
        advice = f"{failure.advice} " if failure and failure.advice else ""
        return Check(
            name,
            "missing",
            ": ".join(dict.fromkeys(what)),
            f"{advice}`ddl show {run.id}` has the details; logs are in {run.folder}",
        )
    reduced = [event for event in run.events() if event["event"] == "all_reduced"]
    if len(reduced) != 1 or reduced[0]["ranks"] != 2:
        return Check(
            name,
            "missing",
            "each rank was alone: two jobs of one rank, not one of two",
            "scheduler_arguments must not set a number of tasks",
        )
    places = [tuple(place) for place in reduced[0]["places"]]
    where = " and ".join(f"{host} ({device})" for host, device in places)
    if site.gpus_per_node and not all(device.startswith("GPU") for _, device in places):
        return Check(
            name,
            "missing",
            f"{where}: the site has GPUs, and TensorFlow sees none",
            "is its build, or its image, the one for GPUs? In Singularity, --nv brings "
            "the driver in; outside, `nvidia-smi` on the node says whether it is well",
        )
    if site.gpus_per_node > 1 and len(set(places)) == 1:
        return Check(
            name,
            "missing",
            f"{where}: both ranks have the same GPU",
            "scheduler_arguments must not give each task a GPU of its own",
        )
    created = run.job["created"]
    started = min(rank.started for rank in run.progress().ranks) - created
    return Check(
        name,
        "OK",
        f"on {where}, first all-reduce after {reduced[0]['time'] - created:.1f} s"
        f" ({started:.1f} s until the ranks started), run {run.id}",
    )


# ---------------------------------------------------------------- the site itself


def _origin(site):
    return Check("site", "OK", site.origin or "described in Python")


def _place(site):
    if site.scheduler == "slurm":
        where = f"to Slurm's partition {site.partition}" if site.partition else ("to Slurm's default partition")
        if site.allocation:
            where = f"to Slurm job {site.allocation}"
    elif site.scheduler == "namespaces":
        rate = f"{site.rate_mbit} Mbit/s" if site.rate_mbit else "no limit"
        where = f"on hosts made on this machine, with {rate} between them"
    else:
        where = "on this machine"
    gpus = f"{site.gpus_per_node} GPU{'' if site.gpus_per_node == 1 else 's'} and "
    cores = f"{site.cores_per_node} core{'' if site.cores_per_node == 1 else 's'}"
    parts = [where, f"up to {plural(site.nodes, 'node')} with {gpus * bool(site.gpus_per_node)}{cores}"]
    if site.inside:
        parts.append(f"in the {site.inside} container that this process is in")
    elif site.container != "none":
        parts.append(f"in {site.container}'s {site.image}")
    return Check("runs go", "OK", f"{', '.join(parts)}, controller {site.controller}")


def _modules(site):
    load = f"module load {shlex.join(site.modules)}"
    answer = _ask("bash", "-lc", load)
    # `module` itself says "not found" on standard error, and on old systems exits with 0.
    if answer.refused or re.search(r"error|unable|not found", answer.words, re.IGNORECASE):
        return Check("modules", "missing", f"`{load}`: {answer.words}", "`module avail` lists what there is")
    return Check("modules", "OK", f"`{load}` works")


# ---------------------------------------------------------------- Slurm


def _commands():
    lacking = [name for name in COMMANDS if not shutil.which(name)]
    if lacking:
        return Check(
            "Slurm commands",
            "missing",
            f"not here: {', '.join(lacking)}",
            "run this where jobs are submitted from, a login node as a rule",
        )
    return Check("Slurm commands", "OK", "here")


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
        """Whether it has the cores and GPUs that the site states."""
        gpus = sum(
            int(count)
            for kind, count in re.findall(r"(?:^|,)gpu(?::([^:,(]+))?:(\d+)", self.gres)
            if not site.gpu_type or kind == site.gpu_type
        )
        return int(self.cores) >= site.cores_per_node and gpus >= site.gpus_per_node

    @property
    def usable(self):
        """Whether jobs can start on it; a node whose state ends in * does not respond."""
        return self.state.rstrip("~#!%$@^+-") in USABLE

    @property
    def has(self):
        gres = "" if self.gres == "(null)" else f" and {self.gres}"
        return f"{self.cores} cores{gres}"


def _partition(site):
    name = "Slurm partition"
    answer = _ask("sinfo", "-h", "-N", "-o", "%N|%P|%a|%T|%c|%G|%l")
    if answer.refused:
        return Check(name, "missing", answer.words, "`sinfo` has to work here first")
    nodes = [_Node(*line.split("|")) for line in answer.text.splitlines()]
    default = next((node.partition for node in nodes if node.partition.endswith("*")), "")
    wanted = (site.partition or default.rstrip("*")).split(",")
    mine = [node for node in nodes if node.partition.rstrip("*") in wanted]
    those = ", ".join(dict.fromkeys(node.partition.rstrip("*") for node in nodes)) or "none"
    if not mine:
        what = (
            f'"{site.partition}" is not here, or not for you'
            if site.partition
            else ("none is given, and Slurm has no default")
        )
        return Check(name, "missing", what, f"partition = one of: {those}")
    if all(node.available != "up" for node in mine):
        return Check(
            name,
            "missing",
            f"{mine[0].partition.rstrip('*')} is {mine[0].available}",
            f"ask when it is up again, or take another of: {those}",
        )
    limit = mine[0].time_limit
    if re.fullmatch(r"[\d:-]+", limit) and seconds(site.time_limit) > seconds(limit):
        return Check(
            name,
            "missing",
            f'time_limit = "{site.time_limit}" is more than its {limit}',
            f'time_limit = "{limit}" or less',
        )
    mine = list({node.name: node for node in mine}.values())
    kinds = ", or ".join(dict.fromkeys(node.has for node in mine))
    states = ", ".join(
        dict.fromkeys(f"{sum(node.state == other.state for other in mine)} {node.state}" for node in mine)
    )
    detail = f"{','.join(wanted)}: {len(mine)} nodes ({states}) with {kinds}; time limit {limit}"
    fitting = [node for node in mine if node.fits(site)]
    if len(fitting) < site.nodes:
        return Check(
            name,
            "missing",
            f"{detail}: {len(fitting)} of them have what the site says",
            "mend nodes, cores_per_node, gpus_per_node or gpu_type in the site file",
        )
    up = sum(node.usable for node in fitting)
    if up < site.nodes:
        return Check(
            name,
            "missing",
            f"{detail}: {up} of them can be used now",
            "wait for the others (`sinfo -R` says why they are out), or take fewer nodes",
        )
    return Check(name, "OK", detail)


def _account(site):
    name = "Slurm account"
    answer = _ask("sacctmgr", "-n", "-P", "show", "assoc", f"user={getpass.getuser()}", "format=account")
    if answer.refused:
        return Check(name, "optional", f"{site.account}; whether it is yours can't be asked: {answer.words}")
    yours = dict.fromkeys(answer.text.split())
    if site.account in yours:
        return Check(name, "OK", f"{site.account} is yours")
    return Check(
        name,
        "missing",
        f"{site.account} is not an account of {getpass.getuser()}",
        f"account = one of: {', '.join(yours) or 'none: ask for one'}",
    )


def _reservation(site):
    name = "Slurm reservation"
    reservation = _reserved(site)
    if isinstance(reservation, str):
        return Check(name, "missing", reservation, "`scontrol show reservation` lists what there is")
    when = f"from {reservation['StartTime']} to {reservation['EndTime']}"
    if reservation["State"] == "ACTIVE":
        return Check(name, "OK", f"{site.reservation}, {when}")
    return Check(
        name,
        "OK",
        f"{site.reservation} is {reservation['State'].lower()} now: {when}",
        "jobs wait until it begins; a file without it can be tried at once",
    )


def _reserved(site):
    """Slurm's facts on the reservation as a dictionary, or its error message."""
    answer = _ask("scontrol", "-o", "show", "reservation", site.reservation)
    if answer.refused:
        return answer.words
    return dict(word.split("=", 1) for word in answer.text.split() if "=" in word)


def _request(site):
    """Ask Slurm whether it would accept the largest job, with all the options of a real one."""
    name = "Slurm's answer"
    if site.reservation:
        reserved = _reserved(site)
        if isinstance(reserved, str) or reserved["State"] != "ACTIVE":
            site = replace(site, reservation="")
    job = Job(str(COURSE / "hello.py"), workers=site.slots * site.nodes, nodes=site.nodes, cwd=os.getcwd())
    argv = plan(job, site, run_id="doctor", folder=runs_dir() / "doctor").argv
    at = argv.index("srun") + 1
    answer = _ask(*argv[:at], "--test-only", *argv[at:])
    whole = f"to a job of {job.workers} workers on {plural(site.nodes, 'node')}"
    if answer.refused:
        return Check(name, "missing", f"{whole}: {answer.words}", "mend the key of the site file that this is about")
    return Check(name, "OK", f"{whole}: {answer.words}")


# ---------------------------------------------------------------- containers


def _program(site):
    name = f"{site.container} command"
    command = f"command -v {site.container}"
    if site.modules:
        command = f"module load {shlex.join(site.modules)} && {command}"
    answer = _ask("bash", "-lc" if site.modules else "-c", command)
    if not answer.refused:
        by = f", once {', '.join(site.modules)} is loaded" if site.modules else ""
        return Check(name, "OK", f"{answer.text.split()[-1]}{by}")
    if site.scheduler == "slurm":
        return Check(
            name,
            "optional",
            "not on this machine's path; it has to be on the nodes'",
            "if a module brings it: modules = [...]; `ddl doctor --submit` shows whether the nodes have it",
        )
    return Check(name, "missing", "not here", f"install {site.container}, or set another container")


def _image(site):
    name = "image"
    if site.container == "docker":
        answer = _ask("docker", "image", "inspect", "--format={{.Id}}", site.image)
        if answer.refused:
            return Check(
                name,
                "missing",
                f"{site.image}: {answer.words}",
                "`make image` builds it; Docker's daemon has to run, and be open to you",
            )
        return Check(name, "OK", f"{site.image}, {answer.text.strip()}")
    path = Path(site.image)
    if not path.exists():
        return Check(name, "missing", f"{path} is not there", "`make sif` builds it; put it where all nodes see it")
    if not os.access(path, os.R_OK):
        return Check(
            name,
            "missing",
            f"{path} can't be read by you",
            f"its owner has to: chmod a+r {path}, and a+x the folders above",
        )
    size = f", {path.stat().st_size / 2**30:.1f} GiB" if path.is_file() else ""
    return Check(name, "OK", f"{path}{size}")


# ---------------------------------------------------------------- file systems


def _folders(site):
    """Check by the types of file systems whether the nodes can see what runs need."""
    paths = {"course": COURSE, "runs": runs_dir(), "data": data_dir()}
    if site.container == "none":
        paths["interpreter"] = Path(site.python or sys.executable)
    elif site.container == "singularity":
        paths["image"] = Path(site.image)
    kinds = {what: _file_system(path) for what, path in paths.items()}
    detail = ", ".join(f"{what} in {paths[what]} ({kind})" for what, kind in kinds.items())
    if all(kind.removeprefix("fuse.") in SHARED for kind in kinds.values()):
        return Check("shared folders", "OK", detail)
    local = [what for what, kind in kinds.items() if kind.removeprefix("fuse.") not in SHARED]
    return Check(
        "shared folders",
        "optional",
        detail,
        f"{', '.join(local)}: may be this machine's "
        "own, and the nodes must see them at the same path; `ddl doctor --submit` shows "
        "whether they do",
    )


def _file_system(path):
    """The type of file system that holds `path`, even if `path` does not exist yet."""
    import psutil

    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    real = path.resolve()
    return next(mounts[str(folder)] for folder in (real, *real.parents) if str(folder) in mounts)


# ---------------------------------------------------------------- asking


@dataclass(frozen=True)
class _Answer:
    """A command's answer: whether it failed, its output, and its message for people."""

    refused: bool
    text: str
    words: str


def _ask(*argv):
    try:
        asked = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        return _Answer(True, "", f"{argv[0]} is not here")
    except subprocess.TimeoutExpired:
        return _Answer(True, "", f"{argv[0]} did not answer within {PATIENCE_S} s")
    words = " ".join(asked.stderr.split()) or " ".join(asked.stdout.split())
    return _Answer(asked.returncode != 0, asked.stdout, words or f"exit {asked.returncode}")
