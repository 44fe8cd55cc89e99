"""From a job and a site to the exact command, without side effects.

A command is built in layers, each in front of the next::

    modules [ slurm [ container [ one host, several hosts or a task [ ddl.rank [ script ] ] ] ] ]

On a laptop the outer three are empty. On one node `ddl.rank.one_host` starts all ranks, as ``horovodrun`` does, which
the line that is shown has in its place. On several nodes Slurm starts a task (`ddl.rank.task`) for each rank, and
on hosts made on this machine `ddl.rank.hosts` starts all ranks.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ddl.launcher.commands import ElasticCommand, HostsCommand, OneHostCommand, RankCommand, TaskCommand
from ddl.launcher.job import Job
from ddl.launcher.site import Site, SiteError
from ddl.launcher.slurm import job_name
from ddl.records.folder import RunFolder
from ddl.records.paths import source_dir
from ddl.words import plural

HERE = "on this machine"
Words = tuple[str, ...]  # of a command line

# What a run needs of its launcher's environment. Names only: everybody can see a command line.
RUN = ("DDL_RUN_ID", "DDL_RUN_DIR", "DDL_RUNS_DIR", "DDL_DATA_DIR", "DDL_LIFELINE", "PYTHONNOUSERSITE")
LOGIN = ("HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "USER", "XDG_CACHE_HOME")
# What Slurm tells each task, and a container hides.
TASK = (
    "CUDA_VISIBLE_DEVICES",
    *(f"SLURM_{name}" for name in ("CPUS_PER_TASK", "JOB_ID", "JOB_NUM_NODES", "LOCALID", "NNODES", "NODEID")),
    *(f"SLURM_{name}" for name in ("NTASKS", "PROCID", "RESTART_COUNT", "STEP_ID")),
    "SLURMD_NODENAME",
)


@dataclass(frozen=True)
class Plan:
    """A command, the one that is shown for it, where it runs and in which environment, and what is written first."""

    argv: Words
    shown: Words
    cwd: str
    environment: tuple[tuple[str, str], ...]
    files: tuple[tuple[Path, str], ...]
    where: str
    given: Words = ()  # variables of `environment` that a terminal has to have, too

    @property
    def shell_line(self) -> str:
        """The line that, pasted into a terminal, does the same training."""
        variables = "".join(f'{name}="${name}" ' for name in self.given)
        return f"cd {shlex.quote(self.cwd)} && {variables}{shlex.join(self.shown)}"


def plan(
    job: Job,
    site: Site,
    *,
    run_id: str,
    folder: str | Path,
    created: float = 0.0,
    detach: bool = False,
    needs: Sequence[str] = (),
    user: str = "",
) -> Plan:
    """Plan a run, or raise SiteError if the site cannot hold the job.

    `needs` are folders that a container must see, at the same place; `user` is the ``uid:gid`` that Docker's runs as.
    """
    names = tuple(name for name, _ in job.env)
    site = replace(site, pass_environment=(*site.pass_environment, *names))
    paths = RunFolder(Path(folder))
    started, files = _elastic(job, site, paths)
    container = _container(job, site, run_id, needs, user)
    argv, shown = (container + ranks for ranks in _ranks(started, site))
    if detach and site.scheduler == "slurm":
        batch = paths.path / "batch.sh"
        files.append((batch, _batch(job, site, argv)))
        argv = shown = (*_sbatch(job, site, run_id, paths), str(batch))
    else:
        around = _modules(site) + _starter(job, site, run_id)
        argv, shown = around + argv, around + shown
    planned = Plan(
        argv=argv,
        shown=shown,
        cwd=job.cwd,
        environment=(*_environment(site, run_id, folder), *job.env),
        files=(),
        where=_where(job, site, detach),
        given=names,
    )
    described = {"id": run_id, "created": created, "detached": detach, **_described(job, site, planned)}
    files += [
        (paths.job, json.dumps(described, indent=1) + "\n"),
        (paths.command, f"#!/bin/sh\n{planned.shell_line}\n"),
    ]
    return replace(planned, files=tuple(files))


def _described(job: Job, site: Site, planned: Plan) -> dict:
    """What is recorded of a job, but no value of a variable."""
    of_job = ("name", "script", "args", "workers", "cluster", "parameter_servers", "processes", "cwd", "timeout_s")
    of_restarts = ("max_restarts", "min_workers", "elastic", "discovery")
    of_site = ("scheduler", "container", "controller", "cores_per_node", "gpus_per_node", "rate_mbit", "allocation")
    return {
        **{name: getattr(job, name) for name in of_job + of_restarts},
        "nodes": site.nodes_for(job),
        "threads": site.threads_per_rank(job),
        "env": planned.given,
        "where": planned.where,
        "site": {name: getattr(site, name) for name in of_site},
        "argv": planned.argv,
        "shell_line": planned.shell_line,
    }


def _environment(site: Site, run_id: str, folder: str | Path) -> Iterator[tuple[str, str]]:
    yield "DDL_RUN_ID", run_id
    yield "DDL_RUN_DIR", str(folder)
    if site.scheduler == "slurm" or site.enters_container:
        yield "PYTHONNOUSERSITE", "1"  # ~/.local is not what was tested, there or inside
    if site.enters_container:
        yield "PYTHONPATH", str(source_dir())  # the package that plans runs, whatever version the image has


def _where(job: Job, site: Site, detach: bool) -> str:
    """Say where the ranks run, and in which container."""
    nodes = site.nodes_for(job)
    where = HERE
    if site.scheduler == "slurm":
        where = f"in a {'batch ' if detach else ''}job of Slurm, on {plural(nodes, 'node')}"
    elif nodes > 1:
        rate = f"{site.rate_mbit} Mbit/s" if site.rate_mbit else "no limit"
        where = f"on {nodes} hosts made on this machine, with {rate} between them"
    if site.allocation:
        where = f"in Slurm job {site.allocation}, which this process runs in"
    if site.inside:
        return f"{where}, inside the {site.inside} container that this process runs in"
    if site.enters_container:
        return f"{where}, entering {site.image} with {site.container}"
    return where


# ---------------------------------------------------------------- the layers, from inside out


def _python(site: Site) -> str:
    return site.python or ("python" if site.enters_container else sys.executable)


def _ranks(job: Job, site: Site) -> tuple[Words, Words]:
    """What starts the ranks of one host, or one of them, and looks after it in a job; and what is shown for it."""
    python = _python(site)
    rank = RankCommand(
        threads=site.threads_per_rank(job),
        cluster=job.cluster,
        parameter_servers=job.parameter_servers or 0,
        start="warm" if job.warm else "cold",
        command=(job.script, *job.args),
    )
    command = (python, *rank.words)
    if job.elastic or site.one_task(job):
        options = {"processes": job.processes, **_supervision(job), "command": command}
        supervised = ElasticCommand(discovery=job.discovery, **options) if job.elastic else OneHostCommand(**options)
        horovodrun = str(Path(python).with_name("horovodrun"))  # of the same environment
        return (python, *supervised.words), (horovodrun, *supervised.horovodrun)
    if site.scheduler == "namespaces":
        return command, command
    if _controller(job, site) == "mpi" and job.max_restarts:
        raise SiteError('controller = "mpi": ranks that MPI brings together cannot start again; use "gloo"')
    task = TaskCommand(
        controller=_controller(job, site),
        network_interface=next(iter(site.network_interfaces), ""),
        **_supervision(job),
        command=command,
    )
    words = (python, *task.words)
    return words, words


def _elastic(job: Job, site: Site, paths: RunFolder) -> tuple[Job, list[tuple[Path, str]]]:
    """Give an elastic job a discovery script in the run's folder, unless it has one; return the files to write, too.

    SiteError where it can't run. Two names of the loopback interface make two hosts of one machine: from a host on
    which a rank fails, Horovod takes all its ranks.
    """
    if not job.elastic:
        return job, []
    if site.scheduler != "local" or site.enters_container:
        raise SiteError(
            "an elastic run has all its ranks on this machine, outside containers: this site has "
            f'scheduler = "{site.scheduler}", container = "{site.container}"',
            "scheduler" if site.scheduler != "local" else "container",
        )
    if job.discovery:
        return job, []
    halves = {"localhost": -(-job.workers // 2), "127.0.0.1": job.workers // 2}
    lines = [f"echo {host}:{slots}\n" for host, slots in halves.items() if slots]
    path = paths.discovery
    return replace(job, discovery=str(path)), [(path, "#!/bin/sh\n" + "".join(lines))]


def _starter(job: Job, site: Site, run_id: str) -> Words:
    """What starts the tasks or ranks: Slurm, or what makes several hosts of this machine; nothing on one host."""
    if site.scheduler == "slurm":
        return _srun(job, site, () if site.allocation else _allocation(site, run_id))
    if site.one_task(job):
        return ()
    several = HostsCommand(
        hosts=site.nodes_for(job), rate_mbit=site.rate_mbit, processes=job.processes, **_supervision(job), command=()
    )
    return (_python(site), *several.words)


def _supervision(job: Job) -> dict[str, Any]:
    """What every supervisor is told."""
    return {"timeout_s": job.timeout_s or 0.0, "max_restarts": job.max_restarts, "min_workers": job.min_workers or 0}


def _controller(job: Job, site: Site) -> str:
    """What brings the ranks of several tasks together; "none" where tf.distribute or PyTorch does."""
    return site.controller if job.cluster == "horovod" else "none"


def _container(job: Job, site: Site, run_id: str, needs: Sequence[str], user: str) -> Words:
    if not site.enters_container:
        return ()
    folders = _outermost([*needs, job.cwd, os.path.dirname(job.script)])
    names: Words = (*RUN, "PYTHONPATH", *site.pass_environment)
    if site.scheduler == "slurm":
        names += TASK + (("PMIX_*", "OMPI_*") if _controller(job, site) == "mpi" else ())
    else:
        names += ("CUDA_VISIBLE_DEVICES",)
    if site.container == "docker":
        binds = (bind if ":" in bind else f"{bind}:{bind}" for bind in (*folders, *site.binds))
        return (
            *("docker", "run", "--rm", "--init", "--interactive", "--no-healthcheck", "--name", job_name(run_id)),
            *(("--gpus", "all") if site.gpus_per_node else ()),
            *("--ipc", "host"),  # ranks of one node talk through shared memory
            *("--user", user, "--workdir", job.cwd),
            *_each("--volume", binds),
            *_each("--env", names),
            *site.container_arguments,
            site.image,
        )
    carrier = Path(__file__).with_name("pass_environment.sh")
    return (
        *("sh", str(carrier), *names, "--", "singularity", "exec"),
        *(("--nv",) if site.gpus_per_node else ()),
        *("--cleanenv", "--pwd", job.cwd),
        *_each("--bind", [*folders, *site.binds]),
        *site.container_arguments,
        site.image,
    )


def _outermost(folders: Iterable[str]) -> list[str]:
    """Drop folders that lie in another of them, and repetitions."""
    kept: list[str] = []
    for folder in sorted({str(folder) for folder in folders}):
        if not any(folder == outer or folder.startswith(f"{outer.rstrip('/')}/") for outer in kept):
            kept.append(folder)
    return kept


def _each(option: str, values: Iterable[str]) -> Words:
    return tuple(word for value in values for word in (option, value))


def _allocation(site: Site, run_id: str) -> Words:
    """What is asked of Slurm's queue."""
    options = {
        "job-name": job_name(run_id),
        "partition": site.partition,
        "account": site.account,
        "reservation": site.reservation,
        "time": site.time_limit,
        # SIGURG: who knows nothing of it ignores it, shells and launchers included.
        "signal": f"URG@{site.time_limit_warning_s}",
    }
    return (*(f"--{name}={value}" for name, value in options.items() if value), *site.scheduler_arguments)


def _tasks(job: Job, site: Site) -> Words:
    """The number of tasks and their resources: the same for a job and for the step in it."""
    nodes, ranks = site.nodes_for(job), site.ranks_per_node(job)
    tasks, cores = ranks, site.threads_per_rank(job)
    if site.one_task(job):
        tasks, cores = 1, cores * job.workers
    gpus = min(job.workers, ranks, site.gpus_per_node)  # tasks fill one node after the other
    count = f"{site.gpu_type}:{gpus}" if site.gpu_type else str(gpus)
    return (
        f"--nodes={nodes}",
        *((f"--ntasks={job.processes}",) if job.processes != nodes * ranks else ()),
        f"--ntasks-per-node={tasks}",
        f"--cpus-per-task={min(cores, site.cores_per_node)}",
        # Never GPUs per task: then every rank would see its own one only, as number 0.
        *((site.gpu_option.replace("{n}", count),) if gpus else ()),
    )


def _srun(job: Job, site: Site, allocation: Words) -> Words:
    mpi = "pmix" if _controller(job, site) == "mpi" else "none"
    together = ("--distribution=block", f"--kill-on-bad-exit={int(not _may_shrink(job))}", f"--mpi={mpi}")
    return (
        "srun",
        *allocation,
        *_tasks(job, site),
        *(() if site.one_task(job) else together),
        *(("--no-kill",) if _may_shrink(job) else ()),
        *(("--overlap",) if site.allocation else ()),
        _exported(site),
    )


def _may_shrink(job: Job) -> bool:
    """Whether the others go on when a node fails, so that Slurm must not end them."""
    return job.min_workers is not None and job.min_workers < job.workers


def _exported(site: Site) -> str:
    # Slurm passes its own variables (SLURM_*) in any case.
    names = (*LOGIN, *RUN, *(("PYTHONPATH",) if site.enters_container else ()), *site.pass_environment)
    return f"--export={','.join(dict.fromkeys(names))}"


def _sbatch(job: Job, site: Site, run_id: str, paths: RunFolder) -> Words:
    return (
        *("sbatch", "--parsable", "--requeue", "--open-mode=append"),
        *_allocation(site, run_id),
        *_tasks(job, site),
        *(("--no-kill",) if _may_shrink(job) else ()),
        _exported(site),
        f"--output={paths.launcher_log}",
    )


def _batch(job: Job, site: Site, contained: Words) -> str:
    """The script of a batch job; a run that made way at the time limit is queued again."""
    modules = f"module load {shlex.join(site.modules)}\n" if site.modules else ""
    step = shlex.join((*_srun(job, site, ()), *contained))
    return f"""\
#!/bin/bash{" -l" * bool(modules)}
{modules}rm -f "$DDL_RUN_DIR/requeue"
{step}
status=$?
if [ $status -eq 0 ] && [ -e "$DDL_RUN_DIR/requeue" ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $status
"""


def _modules(site: Site) -> Words:
    if not site.modules:
        return ()
    return ("bash", "-lc", f'module load {shlex.join(site.modules)} && exec "$@"', "ddl")
