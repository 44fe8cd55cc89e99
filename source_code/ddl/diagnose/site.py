"""Check a site file against Slurm, the container and the file systems."""

import os
import re
import shlex
import sys
from pathlib import Path

from ddl.diagnose.report import Check, missing
from ddl.diagnose.slurm import ask, slurm_checks
from ddl.errors import CourseError
from ddl.launcher.site import Site
from ddl.records.paths import data_dir, runs_dir, source_dir
from ddl.words import plural

COURSE = source_dir()
HELLO_S = 300  # a cold file system takes minutes to import TensorFlow from
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
        found += slurm_checks(site)
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
            Path(__file__).parents[1] / "scripts" / "hello.py",
            site=site,
            workers=2,
            nodes=min(site.nodes, 2),
            oversubscribe=site.slots * min(site.nodes, 2) < 2,
            timeout_s=HELLO_S,
            check=False,
        )
    except (CourseError, OSError) as error:
        return missing(name, str(error), "what is missing above may be why")
    if run.state != "done":
        failure = run.failure
        what = filter(None, (failure.sentence, failure.message)) if failure else (run.state,)
        advice = f"{failure.advice} " if failure and failure.advice else ""
        return missing(
            name,
            ": ".join(dict.fromkeys(what)),
            f"{advice}`ddl show {run.id}` has the details; logs are in {run.folder}",
        )
    reduced = [event for event in run.events() if event["event"] == "all_reduced"]
    if len(reduced) != 1 or reduced[0]["ranks"] != 2:
        return missing(
            name,
            "each rank was alone: two jobs of one rank, not one of two",
            "scheduler_arguments must not set a number of tasks",
        )
    places = [tuple(place) for place in reduced[0]["places"]]
    where = " and ".join(f"{host} ({device})" for host, device in places)
    if site.gpus_per_node and not all(device.startswith("GPU") for _, device in places):
        return missing(
            name,
            f"{where}: the site has GPUs, and TensorFlow sees none",
            "is its build, or its image, the one for GPUs? In Singularity, --nv brings "
            "the driver in; outside, `nvidia-smi` on the node says whether it is well",
        )
    if site.gpus_per_node > 1 and len(set(places)) == 1:
        return missing(
            name,
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
    gpus = f"{plural(site.gpus_per_node, 'GPU')} and " if site.gpus_per_node else ""
    parts = [where, f"up to {plural(site.nodes, 'node')} with {gpus}{plural(site.cores_per_node, 'core')}"]
    if site.inside:
        parts.append(f"in the {site.inside} container that this process is in")
    elif site.container != "none":
        parts.append(f"in {site.container}'s {site.image}")
    return Check("runs go", "OK", f"{', '.join(parts)}, controller {site.controller}")


def _modules(site):
    load = f"module load {shlex.join(site.modules)}"
    answer = ask("bash", "-lc", load)
    # `module` itself says "not found" on standard error, and on old systems exits with 0.
    if answer.refused or re.search(r"error|unable|not found", answer.words, re.IGNORECASE):
        return missing("modules", f"`{load}`: {answer.words}", "`module avail` lists what there is")
    return Check("modules", "OK", f"`{load}` works")


# ---------------------------------------------------------------- containers


def _program(site):
    name = f"{site.container} command"
    command = f"command -v {site.container}"
    if site.modules:
        command = f"module load {shlex.join(site.modules)} && {command}"
    answer = ask("bash", "-lc" if site.modules else "-c", command)
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
    return missing(name, "not here", f"install {site.container}, or set another container")


def _image(site):
    name = "image"
    if site.container == "docker":
        answer = ask("docker", "image", "inspect", "--format={{.Id}}", site.image)
        if answer.refused:
            return missing(
                name,
                f"{site.image}: {answer.words}",
                "`make image` builds it; Docker's daemon has to run, and be open to you",
            )
        return Check(name, "OK", f"{site.image}, {answer.text.strip()}")
    path = Path(site.image)
    if not path.exists():
        return missing(name, f"{path} is not there", "`make sif` builds it; put it where all nodes see it")
    if not os.access(path, os.R_OK):
        return missing(
            name, f"{path} can't be read by you", f"its owner has to: chmod a+r {path}, and a+x the folders above"
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
