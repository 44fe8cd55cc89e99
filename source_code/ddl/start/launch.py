"""Launch a script: from a call to the processes of a run. Only this module starts them."""

import contextlib
import errno
import os
import shlex
import shutil
import socket
import subprocess
import textwrap
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddl.display.style import is_live
from ddl.follow import processes
from ddl.job import slurm
from ddl.job.job import OPTIONS, Job, JobError
from ddl.job.plan import HERE, Plan, plan
from ddl.job.run_options import OURS, SAFE_PATH
from ddl.job.scripts import cluster_of, is_light, option_arguments, resolve_script
from ddl.job.site import Site, SiteError
from ddl.job.timeouts import stall_s
from ddl.records.folder import RunFolder, StorageError
from ddl.records.paths import cache_dir, course_root, data_dir, runs_dir, source_dir, working_dir
from ddl.records.stack import require_horovod, require_keras_2
from ddl.start import fork_client

if TYPE_CHECKING:
    from ddl.follow.run import Run


def launch(
    script: str | Path,
    *,
    args: Iterable[Any] = (),
    env: Mapping[str, str] | None = None,
    site: Site | str | Path | None = None,
    dry_run: bool = False,
    wait: bool = True,
    detach: bool = False,
    check: bool = True,
    name: str | None = None,
    workers: int = 2,
    nodes: int | None = None,
    threads: int | None = None,
    timeout_s: float | None = None,
    oversubscribe: bool = False,
    cluster: str | None = None,
    parameter_servers: int | None = None,
    max_restarts: int = 0,
    elastic: bool = False,
    debug: int | None = None,
    warm: bool | None = None,
    **arguments: Any,
) -> "Run | None":
    """Run a script on several workers and show its progress.

    Parameters
    ----------
    script
        A script for Horovod, tf.distribute or torchrun: a path, the name of one of the course's scripts, or
        "-m package.module".
    args, **arguments
        Arguments of the script. `args` are passed on as they are; ``recipe="warmup", sync_bn=True`` becomes
        ``--recipe warmup --sync-bn``.
    env
        Variables to set for the ranks. Their values are neither shown nor recorded: the shell line takes them from the
        terminal that it is pasted into.
    site
        Where to run: a site, or the path of a site file. The default is ``Site.here()``.
    dry_run
        Print the shell line and return None.
    wait
        Return when the run is over. With False, return at once; `Run.wait` follows the run later.
    detach
        Return when the run has started, and let it outlive this process; on a cluster as a batch job.
        ``attach(run.id)`` finds it again.
    check
        Raise `RunFailed` if the run fails and `RunInterrupted` if it is stopped, so that later cells don't run.
    {options}

    Raises
    ------
    JobError, SiteError, SlurmError, StorageError, WrongKeras
        If the job is not valid, the site cannot hold it, Slurm rejects a batch job, the run's folder cannot be written,
        or ``tf.keras`` is not Keras 2.
    """
    given = locals()
    cwd = str(working_dir())
    _require_types(args=args, env=env, site=site, dry_run=dry_run, wait=wait, detach=detach, check=check)
    path = resolve_script(script, cwd)
    if cluster is None and not elastic:
        given["cluster"], why = cluster_of(path)
        if why:
            print(f'# {Path(path).name} {why}: cluster="{given["cluster"]}"', flush=True)
    job = Job(
        script=path,
        args=(*args, *option_arguments(arguments)),
        cwd=cwd,
        env=tuple((env or {}).items()),
        **{each: given[each] for each in OPTIONS if given[each] is not None},
    )
    site = site if isinstance(site, Site) else Site.here(site)
    if detach and job.debug is not None:
        raise JobError("debug connects a rank to your terminal, which a detached run leaves: omit debug or detach")
    terminal = _terminal(job)
    if dry_run:
        planned = plan(job, site, detach=detach, terminal=terminal, **_surroundings(runs_dir() / "dry-run"))
        if planned.where != HERE:
            print(f"# {planned.where}")
        if job.elastic:
            print("# the discovery script is written when a run starts")
        print(planned.shell_line)
        return None
    is_live()  # refuse an invalid DDL_VIEW before anything runs
    run = start(job, site, detach, terminal)
    if detach or not wait:
        return run
    from ddl.follow.run import RunFailed, RunInterrupted

    try:
        run.wait()
    except RunInterrupted:
        raise
    except BaseException:  # such as an output that cannot be written, or the caller's own alarm
        run.stop()
        raise
    if check and run.state in ("failed", "lost"):
        raise RunFailed(run)
    if check and run.state == "stopped":
        raise RunInterrupted(run, "was stopped")
    return run


def _require_types(**given: Any) -> None:
    """Raise JobError if an argument of `launch` that is not an option of the job has a wrong type."""
    switches = ("dry_run", "wait", "detach", "check")
    rules = {
        "args": (not isinstance(given["args"], (str, bytes)), 'a list of arguments, such as ["--epochs", 3]'),
        "env": (given["env"] is None or isinstance(given["env"], Mapping), 'a mapping such as {"NAME": "value"}'),
        "site": (given["site"] is None or isinstance(given["site"], (Site, str, Path)), "a site or a file's path"),
        **{name: (type(given[name]) is bool, "True or False") for name in switches},
    }
    for name, (fits, rule) in rules.items():
        if not fits:
            raise JobError(f"{name} must be {rule}, got {given[name]!r}")


def _document() -> None:
    """Fill in what a job's options say about themselves."""
    indent = " " * 8
    wrap = textwrap.TextWrapper(112, initial_indent=indent, subsequent_indent=indent)
    texts = (f"{name}\n{wrap.fill(each.metadata['help'])}" for name, each in OPTIONS.items())
    launch.__doc__ = (launch.__doc__ or "").replace("{options}", "\n    ".join(texts))


_document()


def start(job: Job, site: Site, detach: bool = False, terminal: str = "") -> "Run":
    """Write the run's folder and start the job's processes; return the `Run` without waiting."""
    if job.cluster == "horovod" and _same_environment(site):  # elsewhere, ranks check what is there
        require_horovod()
        require_keras_2()
    stall_s()  # refuse an invalid value here, not in the supervisor
    if site.scheduler == "slurm":
        slurm.require_configuration()
    fork_server = _fork_server(job) if _forks(job, site, detach) else None
    paths = RunFolder(_new_folder())
    try:
        surroundings = _surroundings(paths.path)
        planned = plan(job, site, created=time.time(), detach=detach, terminal=terminal, **surroundings)
        for path, text in (*planned.files, (paths.launcher_log, "")):
            paths.write_text(path, text)
        for path in (paths.command, paths.discovery):
            if path.exists():
                path.chmod(0o755)
    except BaseException:
        shutil.rmtree(paths.path, ignore_errors=True)  # nothing is running yet
        raise
    environment = {SAFE_PATH: OURS, **_own_environment(), **dict(planned.environment)}
    if site.scheduler == "slurm":
        environment = slurm.own_environment(environment, site.allocation)
    if detach and site.scheduler == "slurm":
        return _submit(planned, environment, paths)
    if fork_server:
        environment[fork_client.VARIABLE] = str(fork_server.fileno())
    return _spawn(planned, environment, paths, detach, [fork_server.fileno()] if fork_server else [])


def _same_environment(site: Site) -> bool:
    """Return whether a site's ranks use this process's Python packages."""
    return not (site.enters_container or site.python or site.modules)


def _forks(job: Job, site: Site, detach: bool) -> bool:
    """Return whether the job's ranks may be forked from this process's fork server."""
    local = site.scheduler == "local" and site.controller == "gloo" and _same_environment(site) and not detach
    wanted = job.warm is not False and job.cluster != "torchrun" and job.debug is None and fork_client.can_import()
    allowed = os.environ.get("DDL_WARM") != "no" and not fork_client.read_at_import(name for name, _ in job.env)
    return local and wanted and allowed


def _fork_server(job: Job) -> socket.socket | None:
    """Return the connection to the fork server; a job that would not use its imports does not wait for them."""
    connection = fork_client.connection(start=False)
    if connection or (not job.warm and job.cluster == "horovod" and is_light(job.script)):
        return connection
    return fork_client.connection()


def _own_environment() -> dict[str, str]:
    """Return this process's environment without a notebook's plotting backend, which works only in its kernel."""
    environment = dict(os.environ)
    if environment.get("MPLBACKEND", "").startswith("module://"):
        del environment["MPLBACKEND"]
    return environment


def _terminal(job: Job) -> str:
    """Return the path of this process's terminal if a rank is to be debugged; JobError if there is none."""
    if job.debug is None:
        return ""
    try:
        return os.ttyname(0)
    except OSError:
        line = shlex.join(["ddl", "run", "--debug", str(job.debug), *shlex.split(job.script), *job.args])
        raise JobError(f"debug needs a terminal, and this process has none. In a terminal, use: {line}") from None


def _submit(planned: Plan, environment: dict[str, str], paths: RunFolder) -> "Run":
    """Submit a batch job to Slurm."""
    try:
        number = slurm.submit(planned.argv, planned.cwd, environment)
    except slurm.SlurmError as error:
        _record_failure(paths, error)
        raise
    paths.append(paths.launcher, {"event": "submitted", "time": time.time(), "job": number})
    return _run(paths.path)


def _record_failure(paths: RunFolder, error: Exception) -> None:
    failed = {"state": "failed", "reason": "launch", "message": str(error), "job": ""}
    paths.append(paths.launcher, {"event": "ended", "time": time.time(), **failed})


def _spawn(planned: Plan, environment: dict[str, str], paths: RunFolder, detach: bool, inherited: list[int]) -> "Run":
    """Start the supervisor, which inherits these descriptors.

    Unless the run is detached, this process holds one end of a pipe: when it dies, even by SIGKILL, the run ends. The
    other end is standard input, which Slurm and containers pass on to the ranks.
    """
    if not detach:
        environment["DDL_LAUNCHER_PIPE"] = "stdin"
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
                pass_fds=inherited,
            )
        _started.add(process)
        threading.Thread(target=_hold, args=[process], daemon=True).start()
        return _run(paths.path, process)
    except (OSError, RuntimeError) as error:  # the second: no thread
        processes.end(paths.path.name)
        refusal = SiteError(_why_not_started(planned.argv[0], error, environment))
        _record_failure(paths, refusal)
        raise refusal from None
    except BaseException:  # interrupts too
        processes.end(paths.path.name)
        raise


def _run(folder: Path, process: subprocess.Popen | None = None) -> "Run":
    from ddl.follow.run import Run  # takes 20 ms, which would delay the start

    return Run(folder, process)


def _hold(process: subprocess.Popen) -> None:
    """Keep the pipe open while the process runs, even if its `Run` is gone."""
    process.wait()
    if process.stdin:
        process.stdin.close()


def _why_not_started(program: str, error: Exception, environment: dict[str, str]) -> str:
    """Return a sentence on a process, or a thread that waits for it, which the system has refused."""
    from ddl.follow.failure import MORE_THREADS

    number = getattr(error, "errno", errno.EAGAIN)
    why = "`ddl doctor` checks this site" if number != errno.EAGAIN else MORE_THREADS
    if number == errno.E2BIG:
        longest = max(environment, key=lambda name: len(environment[name]))
        why = f"the longest variable of the environment, {longest}, has {len(environment[longest]):,} characters"
    return f"{program} cannot be started ({getattr(error, 'strerror', error)}): {why}"


_started: "weakref.WeakSet[subprocess.Popen]" = weakref.WeakSet()


def _let_go() -> None:
    """Close what a forked child has inherited: otherwise runs would go on for it after this process's death."""
    for process in _started:
        if process.stdin:
            process.stdin.close()
    fork_client.close()


os.register_at_fork(after_in_child=_let_go)


def _surroundings(folder: Path) -> dict[str, Any]:
    """Return what a plan needs besides the job and the site: its folder, those that it must see, and the user."""
    needs, kernels = [course_root(), source_dir(), runs_dir()], cache_dir() / "cuda"
    for optional in (data_dir(), kernels):
        with contextlib.suppress(OSError):  # loading data reports it if it matters
            optional.mkdir(parents=True, exist_ok=True)
            needs.append(optional)
    user = f"{os.getuid()}:{os.getgid()}"
    of_container = {"needs": [str(path) for path in needs], "user": user, "kernels": str(kernels)}
    return {"run_id": folder.name, "folder": folder, **of_container}


def _new_folder() -> Path:
    """Make a new run folder, named by the time and the part of the second, so that names are in the order of starts."""
    while True:
        now = datetime.now()
        folder = runs_dir() / f"{now:%Y%m%d-%H%M%S}-{now.microsecond * 0x10000 // 1_000_000:04x}"
        try:
            folder.mkdir(parents=True)
            return folder
        except OSError as error:
            if not os.path.isdir(folder):  # else another run has the same moment
                raise StorageError(error, runs_dir(), "made") from error
