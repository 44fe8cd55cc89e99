"""Launch a script: from a call to the processes of a run, the only module that starts them."""

import contextlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ddl.launcher import processes, slurm
from ddl.launcher.job import Job, option_arguments, resolve_discovery, resolve_script
from ddl.launcher.options import check as check_options
from ddl.launcher.plan import HERE, Plan, plan
from ddl.launcher.run import Run, RunFailed
from ddl.launcher.settings import stall_s
from ddl.launcher.site import Site
from ddl.launcher.warm import ensure as ensure_template
from ddl.records.folder import RunFolder, StorageError
from ddl.records.paths import course_root, data_dir, runs_dir, source_dir, working_dir
from ddl.records.stack import require_keras_2


def launch(
    script: str | Path,
    *,
    workers: int = 2,
    nodes: int | None = None,
    args: Iterable[Any] = (),
    name: str | None = None,
    threads: int | None = None,
    timeout_s: float | None = None,
    oversubscribe: bool = False,
    cluster: str = "horovod",
    parameter_servers: int | None = None,
    max_restarts: int = 0,
    min_workers: int | None = None,
    elastic: bool = False,
    discovery: str | Path | None = None,
    warm: bool = True,
    env: Mapping[str, str] | None = None,
    dry_run: bool = False,
    wait: bool = True,
    detach: bool = False,
    check: bool = True,
    site: Site | str | Path | None = None,
    **options: Any,
) -> Run | None:
    """Run a script on several workers and show its progress.

    Parameters
    ----------
    script
        A script for Horovod, tf.distribute or torchrun: a path, or the name of one of the course's scripts.
    workers
        Number of ranks that train, each with cores or a GPU of its own unless `oversubscribe` is True.
    nodes
        Number of nodes to use, with as many workers on each; by default the fewest that hold them.
    args, **options
        Of the script: `args` are passed on as they are, ``recipe="warmup", sync_bn=True`` as
        ``--recipe warmup --sync-bn``.
    name
        The run's name in tables and figures; runs with the same name are seeds of one arm.
    threads
        Threads per rank; by default the cores are shared equally.
    timeout_s
        End the run after this many seconds.
    cluster
        "horovod"; a cluster of tf.distribute: "multi_worker" or "parameter_server"; or "torchrun". Those of
        tf.distribute set ``TF_CONFIG`` in every rank before its script runs, and "parameter_server" adds a coordinator
        (rank 0) and `parameter_servers` (the last ranks; by default one). "torchrun" sets what PyTorch's torchrun does:
        ``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and so on.
    max_restarts, min_workers
        When a rank fails, end all and start them again, at most so often. A script that keeps checkpoints in its run's
        folder goes on from the last one (train_cifar.py: ``checkpoint_every``). With `min_workers`, a restart has
        fewer ranks, down to so many, where a place is gone: a host, a node, or a rank that fails before it trains. A
        run that fails in the same step for the same reason twice is not started again.
    elastic, discovery
        Run a script for Horovod's elastic training (``hvd.elastic.run``), whose ranks come and go on this machine: from
        `min_workers` (by default one) to `workers`. `discovery` is an executable that prints a line ``host:slots`` for
        each host with room for ranks, all of them names of this machine; Horovod calls it every second. By default the
        run's folder gets one, ``discover_hosts.sh``, with room for all workers. Edit it while the run goes on. Horovod
        replaces a rank that fails after some seconds (`ddl.rank.elastic`).
    warm
        Let ranks start as forks of a process that has imported TensorFlow and Horovod before (`ddl.launcher.warm`).
        False for a script that must not find them imported. Ranks of "torchrun" never do.
    env
        Variables that are set for the ranks. Their values are neither shown nor recorded: the shell line takes them
        from the terminal that it is pasted into.
    dry_run
        Only print the shell line, and return None.
    wait
        Return when the run is over; otherwise at once, and `Run.wait` follows it later.
    detach
        Return as soon as the run is started, and let it outlive this process; on a cluster as a batch job.
        ``attach(run.id)`` finds it again.
    check
        Raise `RunFailed` if the run fails, so that later cells don't run. A run that was stopped is returned.
    site
        Where to run: a site, or the path of a site file. By default ``Site.here()`` finds it.

    Raises
    ------
    JobError, SiteError, SlurmError, StorageError, WrongKeras
        If the script does not exist, the site cannot hold that many workers, Slurm rejects a batch job, the run's
        folder cannot be written, or ``tf.keras`` would not be Keras 2.
    """
    cwd = str(working_dir())
    job = Job(
        script=resolve_script(script, cwd),
        args=(*args, *option_arguments(options)),
        workers=workers,
        cwd=cwd,
        name=name or "",
        threads=threads,
        timeout_s=timeout_s,
        oversubscribe=oversubscribe,
        nodes=nodes,
        cluster=cluster,
        parameter_servers=parameter_servers,
        max_restarts=max_restarts,
        min_workers=min_workers,
        elastic=elastic,
        discovery=resolve_discovery(discovery, cwd),
        warm=warm,
        env=tuple((env or {}).items()),
    )
    check_options(job.script, job.args, launch.__kwdefaults__ or ())
    site = site if isinstance(site, Site) else Site.here(site)
    if dry_run:
        planned = plan(job, site, detach=detach, **_surroundings(runs_dir() / "dry-run"))
        if planned.where != HERE:
            print(f"# {planned.where}")
        if job.elastic and not job.discovery:
            print("# the discovery script is written when a run starts; a line to paste needs discovery=FILE")
        print(planned.shell_line)
        return None
    run = start(job, site, detach)
    if detach or not wait:
        return run
    run.wait()
    if check and run.state in ("failed", "lost"):
        raise RunFailed(run)
    return run


def start(job: Job, site: Site, detach: bool = False) -> Run:
    """Write the run folder and start the job's processes; return the `Run` without waiting."""
    if not site.enters_container:  # ranks in an image have that one's Keras, and look for themselves
        require_keras_2()
    stall_s()  # what supervisors can't read is refused here
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if job.warm and site.takes_templates and hasattr(shell, "kernel"):  # in a notebook
        ensure_template()
    paths = RunFolder(_new_folder())
    try:
        planned = plan(job, site, created=time.time(), detach=detach, **_surroundings(paths.path))
        for path, text in (*planned.files, (paths.launcher_log, "")):
            paths.write_text(path, text)
        for path in (paths.command, paths.discovery):
            if path.exists():
                path.chmod(0o755)
        paths.reserve_space()
    except BaseException:
        shutil.rmtree(paths.path, ignore_errors=True)  # nothing is running yet
        raise
    environment = {**os.environ, **dict(planned.environment)}
    if detach and site.scheduler == "slurm":
        return _submit(planned, environment, paths)
    return _spawn(planned, environment, paths, detach)


def _submit(planned: Plan, environment: dict[str, str], paths: RunFolder) -> Run:
    """Submit a batch job to Slurm."""
    try:
        number = slurm.submit(planned.argv, planned.cwd, environment)
    except slurm.SlurmError as error:
        failed = {"state": "failed", "reason": "launch", "message": str(error)}
        paths.append(paths.launcher, {"event": "ended", "time": time.time(), **failed})
        paths.free_reserved_space()
        raise
    paths.append(paths.launcher, {"event": "submitted", "time": time.time(), "job": number})
    return Run(paths.path)


def _spawn(planned: Plan, environment: dict[str, str], paths: RunFolder, detach: bool) -> Run:
    """Start the process that starts the ranks.

    Unless the run is detached, this process holds one end of a pipe: when it dies, even by SIGKILL, the run ends. The
    other end is standard input, which Slurm and containers forward to the ranks.
    """
    if not detach:
        environment["DDL_LIFELINE"] = "stdin"
    try:
        with open(paths.launcher_log, "ab") as log:
            process = subprocess.Popen(
                planned.argv,
                cwd=planned.cwd,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL if detach else subprocess.PIPE,
                start_new_session=True,  # Ctrl-C reaches only this process, which then stops the run
            )

        def reap() -> None:  # even if its `Run` is gone
            process.wait()
            if process.stdin:
                process.stdin.close()

        threading.Thread(target=reap, daemon=True).start()
    except BaseException:  # interrupts too
        processes.end(paths.path.name)
        raise
    return Run(paths.path, process)


def _surroundings(folder: Path) -> dict[str, Any]:
    """What a plan needs to know beside the job and the site: its folder, those that it must see, and the user."""
    needs = [course_root(), source_dir(), runs_dir()]
    with contextlib.suppress(OSError):  # loading data reports it, where it matters
        data_dir().mkdir(parents=True, exist_ok=True)
        needs.append(data_dir())
    user = f"{os.getuid()}:{os.getgid()}"
    return {"run_id": folder.name, "folder": folder, "needs": [str(path) for path in needs], "user": user}


def _new_folder() -> Path:
    """Make a new run folder, named by the time and a few random digits."""
    while True:
        folder = runs_dir() / f"{datetime.now():%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
        try:
            folder.mkdir(parents=True)
            return folder
        except OSError as error:
            if not os.path.lexists(folder):  # which another launch has just made
                raise StorageError(error, runs_dir(), "made") from error
