"""Checks of a site file against the machine: where runs go, containers, modules and shared folders."""

import os
import re
import shlex
import sys
from pathlib import Path

from ddl.diagnose.report import Check, missing
from ddl.diagnose.slurm import ask, slurm_checks
from ddl.errors import CourseError
from ddl.job.job import Job
from ddl.job.plan import where
from ddl.job.site import Site
from ddl.records.paths import data_dir, runs_dir, source_dir
from ddl.text import plural

MODULE_ERROR = re.compile(r"^\s*(ERROR:|Lmod has detected the following error|ModuleCmd_Load.*ERROR)", re.MULTILINE)
HELLO_TIMEOUT_S = 300  # importing TensorFlow from a cold network file system takes minutes
# Types of network file systems, which several machines can share.
SHARED = (
    "9p afs beegfs ceph cifs cvmfs2 glusterfs gpfs lustre nfs nfs4 orangefs panfs pvfs2 smb3 virtiofs wekafs".split()
)


def checks(site: Site) -> list[Check]:
    """Return all checks that need no run."""
    slurm = site.scheduler == "slurm"
    return [
        Check("site", "OK", site.origin or "described in Python"),
        _place(site),
        *([_modules(site)] if site.modules else []),
        *(slurm_checks(site) if slurm else []),
        *([_program(site), _image(site)] if site.enters_container else []),
        *([_folders(site)] if slurm else []),
    ]


def two_ranks(site: Site) -> Check:
    """Launch `hello.py` on two ranks, on two nodes if possible, and report where and how fast they ran."""
    from ddl.start.launch import launch

    name = "two ranks"
    try:
        run = launch(
            Path(__file__).parents[1] / "scripts" / "hello.py",
            site=site,
            workers=2,
            nodes=min(site.nodes, 2),
            oversubscribe=site.slots * min(site.nodes, 2) < 2,
            timeout_s=HELLO_TIMEOUT_S,
            check=False,
        )
    except (CourseError, OSError) as error:
        return missing(name, str(error), "fix what is missing above, then try again")
    if run.state != "done":
        failure = run.failure
        what = filter(None, (failure.sentence, failure.message)) if failure else (run.state,)
        advice = f"{failure.advice} " if failure and failure.advice else ""
        advice += f"`ddl show {run.id}` has the details; logs are in {run.folder}"
        return missing(name, ": ".join(dict.fromkeys(what)), advice)
    reduced = [event for event in run.events() if event["event"] == "all_reduced"]
    if len(reduced) != 1 or reduced[0]["ranks"] != 2:
        advice = "scheduler_arguments must not set a number of tasks"
        return missing(name, "each rank was alone: two jobs of one rank, not one of two", advice)
    places = [tuple(place) for place in reduced[0]["places"]]
    found = " and ".join(f"{host} ({device})" for host, device in places)
    if site.gpus_per_node and not all(device.startswith("GPU") for _, device in places):
        advice = (
            "use a TensorFlow, or an image, that is built for GPUs. In Singularity, --nv adds the driver; otherwise, "
            "check the node with `nvidia-smi`"
        )
        return missing(name, f"{found}: the site has GPUs, but TensorFlow finds none", advice)
    if site.gpus_per_node > 1 and len(set(places)) == 1:
        advice = "scheduler_arguments must not bind GPUs to tasks"
        return missing(name, f"{found}: both ranks use the same GPU", advice)
    created = run.job["created"]
    started_s = min(rank.started for rank in run.progress().ranks) - created
    reduced_s = reduced[0]["time"] - created
    detail = f"on {found}, first all-reduce after {reduced_s:.1f} s ({started_s:.1f} s until the ranks started)"
    return Check(name, "OK", f"{detail}, run {run.id}")


def _place(site):
    job = Job("hello.py", workers=site.slots * site.nodes, nodes=site.nodes)
    gpus = f"{plural(site.gpus_per_node, 'GPU')} and " if site.gpus_per_node else ""
    nodes = f"up to {plural(site.nodes, 'node')} with {gpus}{plural(site.cores_per_node, 'core')}"
    return Check("runs go", "OK", f"{where(job, site)}, {nodes}, controller {site.controller}")


def _modules(site):
    load = f"module load {shlex.join(site.modules)}"
    answer = ask("bash", "-lc", load)
    # Old versions of `module` exit with 0 and report errors on standard error. A login shell may print anything there.
    if answer.refused or MODULE_ERROR.search(answer.complaints):
        return missing("modules", f"`{load}`: {answer.words}", "`module avail` lists the modules")
    return Check("modules", "OK", f"`{load}` works")


def _program(site):
    name = f"{site.container} command"
    command = f"command -v {site.container}"
    if site.modules:
        command = f"module load {shlex.join(site.modules)} && {command}"
    answer = ask("bash", "-lc" if site.modules else "-c", command)
    if not answer.refused:
        by = f", with {', '.join(site.modules)} loaded" if site.modules else ""
        return Check(name, "OK", f"{answer.text.split()[-1]}{by}")
    if site.scheduler == "slurm":
        advice = "if a module provides it, add modules = [...]; `ddl doctor --submit` checks the nodes"
        return Check(name, "optional", "not on this machine's path, but needed on the nodes", advice)
    return missing(name, "not on the path", f"install {site.container}, or set another container")


def _image(site):
    if site.container == "docker":
        answer = ask("docker", "image", "inspect", "--format={{.Id}}", site.image)
        if answer.refused:
            advice = "`make image` builds it; Docker's daemon must run and accept you"
            return missing("image", f"{site.image}: {answer.words}", advice)
        return Check("image", "OK", f"{site.image}, {answer.text.strip()}")
    path = Path(site.image)
    if not path.exists():
        return missing("image", f"{path} does not exist", "`make sif` builds it; put it where all nodes can read it")
    if not os.access(path, os.R_OK):
        advice = f"ask its owner to run chmod a+r {path}, and a+x on the folders above"
        return missing("image", f"you may not read {path}", advice)
    size = f", {path.stat().st_size / 2**30:.1f} GiB" if path.is_file() else ""
    return Check("image", "OK", f"{path}{size}")


def _folders(site):
    """Check, by types of file systems, whether the nodes can see the files that runs need."""
    paths = {"course": source_dir(), "runs": runs_dir(), "data": data_dir()}
    if site.container == "none":
        paths["interpreter"] = Path(site.python or sys.executable)
    elif site.container == "singularity":
        paths["image"] = Path(site.image)
    kinds = {what: _file_system(path) for what, path in paths.items()}
    detail = ", ".join(f"{what} in {paths[what]} ({kind})" for what, kind in kinds.items())
    local = [what for what, kind in kinds.items() if kind.removeprefix("fuse.") not in SHARED]
    if not local:
        return Check("shared folders", "OK", detail)
    advice = (
        f"the nodes must see {', '.join(local)} at the same path, but this file system may be local; "
        "`ddl doctor --submit` checks it"
    )
    return Check("shared folders", "optional", detail, advice)


def _file_system(path):
    """Return the type of the file system that holds `path`, which need not exist; "unknown" in a chroot."""
    import psutil

    mounts = {part.mountpoint: part.fstype for part in psutil.disk_partitions(all=True)}
    real = path.resolve()
    return next((mounts[str(folder)] for folder in (real, *real.parents) if str(folder) in mounts), "unknown")
