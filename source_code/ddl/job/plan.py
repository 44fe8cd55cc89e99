"""Plan a run: from a job and a site to the exact command, without side effects.

A command is built in layers, each in front of the next::

    modules [ slurm [ container [ supervisor ] ] ]

On a laptop the outer three are empty. The supervisor is `ddl.start.one_host` on one node, `ddl.start.netns_hosts` on
hosts made on this machine, and one `ddl.start.task` for each rank on several nodes of Slurm. Its only argument is the
run's folder: it reads everything else from ``job.json`` there. The line that is shown has a stock ``horovodrun`` in its
place, or carries the options, so that it does the same training when it is pasted into a terminal.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddl.job.job import MODULE, OPTIONS, Job
from ddl.job.run_options import HOST_OPTIONS, RANK_OPTIONS, SAFE_PATH, TASK_OPTIONS, RunOptions
from ddl.job.site import Site, SiteError
from ddl.job.slurm import job_name
from ddl.job.timeouts import COOLDOWN_S, GLOO_TIMEOUT_S
from ddl.records.folder import RunFolder
from ddl.records.paths import source_dir
from ddl.text import plural

HERE = "on this machine"
Words = tuple[str, ...]  # of a command line

# Variables that a run needs from its launcher. Names only: everybody can see a command line.
RUN = ("DDL_RUN_ID", "DDL_RUN_DIR", "DDL_RUNS_DIR", "DDL_DATA_DIR", "DDL_LAUNCHER_PIPE", "PYTHONNOUSERSITE", SAFE_PATH)
# The folder in which a GPU's driver keeps compiled kernels, and its size.
KERNELS = ("CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE")
LOGIN = (*KERNELS, "HOME", "LANG", "LD_LIBRARY_PATH", "LOGNAME", "PATH", "SHELL", "USER", "XDG_CACHE_HOME")
TASK = ("SLURM_*", "SLURMD_NODENAME")  # that Slurm sets for each task and a container hides


@dataclass(frozen=True)
class Plan:
    """A command, its working directory and environment, and the files to write first.

    `shell_line` does the same training when it is pasted into a terminal.
    """

    argv: Words
    shell_line: str
    cwd: str
    environment: tuple[tuple[str, str], ...]
    files: tuple[tuple[Path, str], ...]
    where: str


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
    kernels: str = "",
    terminal: str = "",
) -> Plan:
    """Plan a run; SiteError if the site cannot hold the job.

    `needs` are folders that a container must see at the same path, and `kernels` is the one among them where a GPU's
    driver keeps what it compiles. `user` is the ``uid:gid`` for Docker, and `terminal` the path of the terminal for a
    rank to debug.
    """
    names = tuple(name for name, _ in job.env)
    site = replace(site, pass_environment=(*site.pass_environment, *names))
    paths = RunFolder(Path(folder))
    files = _discovery(job, site, paths)
    described = _described(job, site, detach, terminal)
    options = RunOptions.of_job(described | {"folder": str(folder)})
    container = _container(job, site, run_id, needs, user)
    supervisor = (_python(site), "-m", _supervisor(job, site), str(folder))
    argv, shown = container + supervisor, container + _shown(options, job, site)
    if detach and site.scheduler == "slurm":
        batch = paths.path / "batch.sh"
        files.append((batch, _batch(job, site, argv)))
        argv = shown = (*_sbatch(job, site, run_id, paths), str(batch))
    else:
        around = _modules(site)
        if site.scheduler == "slurm":
            around += _srun(job, site, () if site.allocation else _allocation(site, run_id))
        argv, shown = around + argv, around + shown
    variables = "".join(f'{name}="${name}" ' for name in names)  # from the terminal that it is pasted into
    line = f"cd {shlex.quote(job.cwd)} && {variables}{shlex.join(shown)}"
    record = {"id": run_id, "created": created, **described, "argv": argv, "shell_line": line}
    files += [(paths.job, json.dumps(record, indent=1) + "\n"), (paths.command, f"#!/bin/sh\n{line}\n")]
    environment = (*_environment(site, run_id, folder, kernels), *job.env)
    return Plan(argv, line, job.cwd, environment, tuple(files), described["where"])


def _described(job: Job, site: Site, detach: bool, terminal: str) -> dict:
    """Return what ``job.json`` says: the job's options and where it runs, but no value of a variable."""
    of_site = ("scheduler", "container", "controller", "cores_per_node", "gpus_per_node", "rate_mbit", "allocation")
    if job.max_restarts and site.controller == "mpi" and not site.one_task(job):
        raise SiteError('controller = "mpi": ranks that MPI connects can\'t be restarted; use "gloo"')
    return {
        **{name: getattr(job, name) for name in OPTIONS},
        **{name: getattr(job, name) for name in ("script", "args", "cwd", "ranks")},
        "nodes": site.nodes_for(job),
        "threads": site.threads_per_rank(job),
        "env": [name for name, _ in job.env],
        "terminal": terminal,
        "detached": detach,
        "where": where(job, site, detach),
        "site": {
            **{name: getattr(site, name) for name in of_site},
            "network_interface": next(iter(site.network_interfaces), ""),
        },
    }


def _environment(site: Site, run_id: str, folder: str | Path, kernels: str) -> Iterator[tuple[str, str]]:
    yield "DDL_RUN_ID", run_id
    yield "DDL_RUN_DIR", str(folder)
    if site.scheduler == "slurm" or site.enters_container:
        yield "PYTHONNOUSERSITE", "1"  # packages in ~/.local were not tested
    if site.enters_container:
        yield "PYTHONPATH", str(source_dir())  # this version of the package, not the image's
        if kernels and site.gpus_per_node:  # the container's home folder is lost with it
            yield "CUDA_CACHE_PATH", kernels


def where(job: Job, site: Site, detach: bool = False) -> str:
    """Say where the ranks run and in which container."""
    nodes = site.nodes_for(job)
    place = HERE
    if site.scheduler == "slurm":
        place = f"in a {'batch ' if detach else ''}job of Slurm, on {plural(nodes, 'node')}"
    elif nodes > 1:
        rate = f"{site.rate_mbit} Mbit/s" if site.rate_mbit else "no limit"
        place = f"on {nodes} hosts made on this machine, with {rate} between them"
    if site.allocation:
        place = f"in Slurm job {site.allocation}, which this process runs in"
    if site.inside:
        return f"{place}, inside the {site.inside} container that this process runs in"
    if site.enters_container:
        return f"{place}, entering {site.image} with {site.container}"
    return place


# ---------------------------------------------------------------- the layers, from inside out


def _python(site: Site) -> str:
    return site.python or ("python" if site.enters_container else sys.executable)


def _supervisor(job: Job, site: Site) -> str:
    """Name the module that starts the ranks, or one of them, and supervises them."""
    if job.elastic:
        return "ddl.start.elastic"
    if site.scheduler == "namespaces" and not site.one_task(job):
        return "ddl.start.netns_hosts"
    return "ddl.start.one_host" if site.one_task(job) else "ddl.start.task"


def _shown(options: RunOptions, job: Job, site: Site) -> Words:
    """Return the words that are shown in the supervisor's place."""
    python, supervisor = _python(site), _supervisor(job, site)
    if supervisor == "ddl.start.task":
        return (python, "-m", supervisor, *options.words(TASK_OPTIONS))
    if supervisor == "ddl.start.netns_hosts":
        return (python, "-m", supervisor, *options.words(HOST_OPTIONS))
    if job.cluster == "torchrun":
        torchrun = str(Path(python).with_name("torchrun"))  # of the same environment
        each = ("--standalone", "--nproc-per-node", str(options.ranks))
        return ("env", f"OMP_NUM_THREADS={options.threads}", torchrun, *each, *options.script_words)
    horovodrun = str(Path(python).with_name("horovodrun"))
    return (horovodrun, *_horovodrun_options(options), python, "-m", "ddl.rank", *options.words(RANK_OPTIONS))


def _horovodrun_options(options: RunOptions) -> Words:
    # All ranks are on this host. Left to itself, horovodrun takes any interface that is up, and a laptop's may go away
    # in the middle of a run; or it waits for a second host, to look for common ones.
    fixed = ("--gloo", "--network-interfaces", "lo", "--gloo-timeout-seconds", str(GLOO_TIMEOUT_S))
    if not options.elastic:
        return (*fixed, "-np", str(options.ranks))
    return (
        *(*fixed, "-np", "1", "--min-np", "1", "--max-np", str(options.ranks)),
        *("--blacklist-cooldown-range", *map(str, COOLDOWN_S)),
        *("--host-discovery-script", shlex.quote(str(RunFolder(Path(options.folder)).discovery))),  # a line for a shell
    )


def _discovery(job: Job, site: Site, paths: RunFolder) -> list[tuple[Path, str]]:
    """Return the discovery script to write for an elastic job.

    SiteError if the site can't run it. Two names of the loopback interface stand for two hosts, because Horovod removes
    all ranks of a host on which one fails.
    """
    if not job.elastic:
        return []
    if site.scheduler != "local" or site.enters_container:
        raise SiteError(
            "an elastic run needs all its ranks on this machine, outside containers; this site has "
            f'scheduler = "{site.scheduler}", container = "{site.container}"'
        )
    halves = {"localhost": -(-job.workers // 2), "127.0.0.1": job.workers // 2}
    lines = [f"echo {host}:{slots}\n" for host, slots in halves.items() if slots]
    return [(paths.discovery, "#!/bin/sh\n" + "".join(lines))]


def _container(job: Job, site: Site, run_id: str, needs: Sequence[str], user: str) -> Words:
    if not site.enters_container:
        return ()
    own = [] if job.script.startswith(MODULE) else [os.path.dirname(job.script)]
    folders = _outermost([*needs, job.cwd, *own])
    names: Words = (*RUN, "PYTHONPATH", *site.pass_environment, "CUDA_VISIBLE_DEVICES", *KERNELS)
    if site.scheduler == "slurm":
        names += TASK + (("PMIX_*", "OMPI_*") if _through_mpi(job, site) else ())
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
    """Drop folders that are inside another one, and repetitions."""
    kept: list[str] = []
    for folder in sorted({str(folder) for folder in folders}):
        if not any(folder == outer or folder.startswith(f"{outer.rstrip('/')}/") for outer in kept):
            kept.append(folder)
    return kept


def _each(option: str, values: Iterable[str]) -> Words:
    return tuple(word for value in values for word in (option, value))


def _allocation(site: Site, run_id: str) -> Words:
    """Return the options of a request to Slurm's queue."""
    options = {
        "job-name": job_name(run_id),
        "partition": site.partition,
        "account": site.account,
        "reservation": site.reservation,
        "time": site.time_limit,
        # SIGURG is ignored by default, by shells and launchers too.
        "signal": f"URG@{site.time_limit_warning_s}",
    }
    return (*(f"--{name}={value}" for name, value in options.items() if value), *site.scheduler_arguments)


def allocation_options(site: Site, nodes: int) -> Words:
    """Return the options of ``salloc`` for whole nodes of a site."""
    cores = max(1, site.cores_per_node // site.slots)
    tasks = (f"--nodes={nodes}", f"--ntasks-per-node={site.slots}", f"--cpus-per-task={cores}")
    return (*_allocation(site, "allocation"), *tasks, *_gpus(site, site.gpus_per_node))


def _gpus(site: Site, count: int) -> Words:
    """Return the option that asks for GPUs of a node.

    Never GPUs per task: every rank would then see only its own, as number 0.
    """
    words = f"{site.gpu_type}:{count}" if site.gpu_type else str(count)
    return (site.gpu_option.replace("{n}", words),) if count else ()


def _tasks(job: Job, site: Site) -> Words:
    """Return the number of tasks and their resources, the same for a job and the step in it."""
    nodes, ranks = site.nodes_for(job), site.ranks_per_node(job)
    tasks, cores = ranks, site.threads_per_rank(job)
    if site.one_task(job):
        tasks, cores = 1, cores * job.workers
    gpus = min(job.workers, ranks, site.gpus_per_node)  # tasks fill one node after the other
    return (
        f"--nodes={nodes}",
        *((f"--ntasks={job.ranks}",) if job.ranks != nodes * ranks else ()),
        f"--ntasks-per-node={tasks}",
        f"--cpus-per-task={min(cores, site.cores_per_node)}",
        *_gpus(site, gpus),
    )


def _srun(job: Job, site: Site, allocation: Words) -> Words:
    mpi = "pmix" if _through_mpi(job, site) else "none"
    together = ("--distribution=block", "--kill-on-bad-exit=1", f"--mpi={mpi}")
    return (
        "srun",
        *allocation,
        *_tasks(job, site),
        *(() if site.one_task(job) else together),
        *(("--overlap",) if site.allocation else ()),
        _exported(site),
    )


def _through_mpi(job: Job, site: Site) -> bool:
    """Return whether MPI connects the ranks; tf.distribute and PyTorch connect theirs."""
    return site.controller == "mpi" and job.cluster == "horovod"


def _exported(site: Site) -> str:
    # Slurm passes its own variables (SLURM_*) in any case.
    names = (*LOGIN, *RUN, *(("PYTHONPATH",) if site.enters_container else ()), *site.pass_environment)
    return f"--export={','.join(dict.fromkeys(names))}"


def _sbatch(job: Job, site: Site, run_id: str, paths: RunFolder) -> Words:
    return (
        *("sbatch", "--parsable", "--requeue", "--open-mode=append"),
        *_allocation(site, run_id),
        *_tasks(job, site),
        _exported(site),
        f"--output={paths.launcher_log}",
    )


def _batch(job: Job, site: Site, contained: Words) -> str:
    """Return the script of a batch job. A run that stopped at its time limit with a checkpoint is requeued."""
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
