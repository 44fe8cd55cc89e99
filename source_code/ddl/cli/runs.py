"""The tool's commands: `ddl run`, `rerun`, `list`, `show`, `logs`, `stop`, `rm`, `compare`, `doctor` and `warm`."""

import argparse
import json
import os
import shutil
import signal
import sys
import time

from ddl.arguments import add_command
from ddl.errors import InputError
from ddl.launcher.roles import CLUSTERS
from ddl.words import plural

DAY_S = 24 * 60 * 60


RUN = "its id, or the beginning of it"


def add(commands):
    """Add the commands to the program's."""
    _add_starts(commands)
    _add_looks(commands)


def _add_starts(commands):
    run = add_command(commands, "run", _run, "run a script for Horovod, tf.distribute or torchrun on several workers")
    run.add_argument("-n", "--workers", type=int, default=2, help="number of ranks that compute (default 2)")
    run.add_argument(
        "--cluster", choices=CLUSTERS, default=CLUSTERS[0], help="what the ranks are to each other (default horovod)"
    )
    run.add_argument(
        "--parameter-servers",
        type=int,
        metavar="N",
        help="ranks that keep weights, with --cluster parameter_server (default 1)",
    )
    run.add_argument("--threads", type=int, help="threads per rank (default: cores / workers)")
    run.add_argument("--timeout-s", type=float, help="end the run after this many seconds")
    run.add_argument("--max-restarts", type=int, default=0, metavar="N", help="start again when a rank fails")
    run.add_argument("--min-workers", type=int, metavar="M", help="let a restart, or an elastic run, have so few")
    run.add_argument("--elastic", action="store_true", help="Horovod's elastic training: ranks come and go")
    run.add_argument("--discovery", metavar="FILE", help="with --elastic: prints host:slots lines, and may be edited")
    run.add_argument("--oversubscribe", action="store_true", help="allow more ranks than cores or GPUs")
    run.add_argument("--nodes", type=int, help="spread the ranks over so many nodes")
    run.add_argument("--cold", action="store_true", help="no rank from a template that has TensorFlow imported")
    run.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    rerun = add_command(commands, "rerun", _rerun, "run again what a run was: script, arguments, ranks, folder")
    for starts in (run, rerun):
        starts.add_argument("--name", help="what tables and figures call the run")
        starts.add_argument("--site", metavar="FILE", help="where to run (default: found or detected)")
        starts.add_argument(
            "--env",
            action="append",
            default=[],
            metavar="NAME[=VALUE]",
            help="set a variable for the ranks, or pass yours on; values are neither shown nor recorded",
        )
        starts.add_argument(
            "--detach", action="store_true", help="return at once; the run goes on (`ddl show RUN` follows it)"
        )
    run.add_argument(
        "script",
        nargs=argparse.PARSER,  # and all that follows, also a `--` of the script's
        metavar="SCRIPT",
        help="a path, or the name of one of the course's scripts, and its own arguments",
    )
    rerun.add_argument("run", metavar="RUN", help=RUN)


def _add_looks(commands):
    listing = add_command(commands, "list", _list, "list runs, oldest first")
    listing.add_argument("--state", metavar="STATE", help="only those in this state, such as failed or training")
    listing.add_argument("--last", type=int, metavar="N", help="only the latest N")
    show = add_command(commands, "show", _show, "follow a run, or show one that is over")
    show.add_argument("--no-follow", action="store_true", help="show how it stands now, and return")
    logs = add_command(commands, "logs", _logs, "print what a rank has printed")
    logs.add_argument("--rank", type=int, default=0, metavar="K", help="whose log (default 0)")
    logs.add_argument("--follow", action="store_true", help="go on until the run is over")
    stop = add_command(commands, "stop", _stop, "stop a run")
    for sub in (show, logs, stop):
        sub.add_argument("run", metavar="RUN", help=RUN)
    for sub in (listing, show):
        sub.add_argument("--json", action="store_true", help="as JSON; follows nothing")
    remove = add_command(commands, "rm", _remove, "delete folders of runs that are over")
    remove.add_argument("run", nargs="*", metavar="RUN", help="their ids")
    remove.add_argument("--older-than", type=float, metavar="DAYS", help="all that began so many days ago or earlier")
    compare = add_command(commands, "compare", _compare, "compare runs in a table")
    compare.add_argument("run", nargs="+", help="their ids")
    doctor = add_command(commands, "doctor", _doctor, "what is here, and what to do about what is not")
    doctor.add_argument("--site", metavar="FILE", help="check this site file")
    doctor.add_argument("--submit", action="store_true", help="run two ranks there, too")
    warm = add_command(commands, "warm", _warm, "keep TensorFlow imported, so that local launches take a second")
    warm.add_argument("--stop", action="store_true", help="end what was kept")


LAUNCHED = ("workers", "threads", "timeout_s", "oversubscribe", "cluster", "parameter_servers", "nodes", "name")
LAUNCHED += ("max_restarts", "min_workers", "elastic", "discovery")


def _run(arguments):
    script, *args = [word for at, word in enumerate(arguments.script) if at or word != "--"]
    job = {name: getattr(arguments, name) for name in LAUNCHED}
    return _launch(arguments, script=script, args=args, warm=not arguments.cold, dry_run=arguments.dry_run, **job)


def _rerun(arguments):
    from ddl.launcher.run import attach

    run = attach(arguments.run)
    if not run.job:
        raise InputError(f"{run.id} cannot be run again: its job.json is missing or damaged")
    given = {word.partition("=")[0] for word in arguments.env}
    arguments.env += sorted(set(run.job.get("env", ())) - given)  # those of this terminal
    os.chdir(run.job.get("cwd", "."))
    job = {name: run.job[name] for name in ("script", "args", *LAUNCHED) if name in run.job}
    job["oversubscribe"] = True  # as far as it was then
    job["name"] = arguments.name or run.job.get("name")
    return _launch(arguments, warm="cold" not in run.job.get("argv", ()), **job)


def _launch(arguments, **job):
    from ddl.launcher.launch import launch

    env = dict(map(_variable, arguments.env))
    run = launch(**job, env=env, site=arguments.site, detach=arguments.detach, wait=False, check=False)
    if run and not arguments.detach:
        signal.signal(signal.SIGTERM, lambda *_: run.make_room())  # of a machine that is about to go away
        run.wait()
    if run and arguments.detach:
        print(f"{run.id} is on its way: `ddl show {run.id}` follows it, `ddl stop {run.id}` ends it")
        return 0
    return run.status if run else 0


def _variable(word):
    name, given, value = word.partition("=")
    if not given and name not in os.environ:
        raise InputError(f"--env {name}: there is no such variable here; give --env {name}=VALUE")
    return name, value if given else os.environ[name]


def _list(arguments):
    from ddl.launcher.progress import STATES
    from ddl.launcher.run import runs
    from ddl.words import did_you_mean

    if arguments.state and arguments.state not in STATES:
        known = did_you_mean(arguments.state, STATES) or f"; there are: {', '.join(STATES)}"
        raise InputError(f"--state {arguments.state}: no such state{known}")
    if arguments.last is not None and arguments.last < 1:
        raise InputError(f"--last {arguments.last}: at least 1 is needed")
    found = [run for run in runs() if not arguments.state or run.state == arguments.state]
    found = found[-arguments.last :] if arguments.last else found
    if arguments.json:
        print(json.dumps([_facts(run) for run in found], indent=1))
        return
    for run in found:
        print(f"{run.id}  {run!r}")


def _facts(run):
    """What a program wants to know of a run."""
    progress, job = run.progress(), run.job
    return {
        "id": run.id,
        "name": run.name,
        "state": progress.state,
        "status": run.status if progress.over else None,
        "folder": str(run.folder),
        **{key: job.get(key) for key in ("script", "args", "workers", "created", "where")},
        **{key: getattr(progress, key) for key in ("elapsed_s", "step", "steps", "epoch", "loss", "test_accuracy")},
        "failure": progress.failure.sentence if progress.failure else None,
        "notes": list(progress.notes),
    }


def _show(arguments):
    from ddl.display import view
    from ddl.launcher.run import attach

    run = attach(arguments.run)
    if arguments.json:
        print(json.dumps(_facts(run) | {"result": run.result, "history": list(run.progress().history)}, indent=1))
    elif arguments.no_follow:
        view.of(run).close(run.progress())
    else:
        run.wait()
    return run.status if run.progress().over else 0


def _logs(arguments):
    from ddl.launcher.lifetime import POLL_S
    from ddl.launcher.run import attach
    from ddl.records.folder import RunFolder
    from ddl.records.log import LogTail

    run = attach(arguments.run)
    if not arguments.follow or run.progress().over:
        text = run.logs(arguments.rank)
        sys.stdout.write(text)
        if not text:
            print(f"rank {arguments.rank} of {run.id} printed nothing", file=sys.stderr)
        return
    tail, over = LogTail(RunFolder(run.folder).log(arguments.rank)), False
    while True:
        over = run.progress().over
        for line in tail.lines():
            print(line, flush=True)
        if over:
            print(tail.take_current(), end="")
            return
        time.sleep(POLL_S)


def _stop(arguments):
    from ddl.launcher.run import attach

    run = attach(arguments.run)
    before = run.progress()
    run.stop()
    print(f"{run.id} was over already: {before.state}" if before.over else f"{run.id}  {run!r}")
    if run.unwritten:
        raise run.unwritten


def _remove(arguments):
    from ddl.launcher.run import attach, runs

    if bool(arguments.run) == (arguments.older_than is not None):
        raise InputError("ddl rm: either ids of runs or --older-than DAYS is needed")
    if arguments.run:
        found = [attach(run) for run in arguments.run]
    else:
        latest = time.time() - arguments.older_than * DAY_S
        found = [run for run in runs() if run.created <= latest and run.progress().over]
    if going := [run.id for run in found if not run.progress().over]:
        raise InputError(f"{', '.join(going)} is not over, and nothing was deleted: `ddl stop` ends a run")
    for run in found:
        shutil.rmtree(run.folder)
        print(f"{run.id}  deleted")
    if not arguments.run:
        print(f"{plural(len(found), 'run')} deleted")


def _compare(arguments):
    from ddl.comparison import compare
    from ddl.launcher.run import attach

    print(repr(compare([attach(run) for run in arguments.run])))


def _doctor(arguments):
    from ddl.diagnose.machine import doctor

    report = doctor(site=arguments.site, submit=arguments.submit)
    print(report)
    return 0 if report.ok else 1


def _warm(arguments):
    from ddl.launcher import warm

    if arguments.stop:
        ended = warm.stop()
        print(f"{plural(len(ended), 'template')} ended" if ended else "there is no template")
        return
    print(warm.describe(warm.await_ready()))
