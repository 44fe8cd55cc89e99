"""The tool's commands: `ddl run`, `rerun`, `alloc`, `list`, `show`, `logs`, `stop`, `rm`, `compare` and `doctor`."""

import argparse
import json
import os
import shutil
import signal
import sys
import time
from functools import partial

from ddl import arguments
from ddl.errors import InputError
from ddl.job.job import MODULE, OPTIONS, add_options
from ddl.text import plural

DAY_S = 24 * 60 * 60
RUN = "id of a run, or the beginning of it"
add_command = partial(arguments.add_command, group="runs")
add_machine_command = partial(arguments.add_command, group="machines")


def add(commands):
    """Add the commands to the program's parser."""
    _add_launching(commands)
    _add_looking(commands)


def _add_launching(commands):
    run = add_command(
        commands,
        "run",
        _run,
        "run a script for Horovod, tf.distribute or torchrun on several workers",
        "run -n 2 train.py --epochs 3",
    )
    add_options(run)
    run.add_argument("-np", dest="np", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    run.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, such as package.train")
    rerun = add_command(
        commands, "rerun", _rerun, "run a script again as in an earlier run", "rerun 20261127-101500 --name again"
    )
    rerun.add_argument("--name", help="the new run's name in tables and figures")
    for command in (run, rerun):
        command.add_argument("--site", metavar="FILE", help="where to run (default: found or detected)")
        command.add_argument(
            "--env",
            action="append",
            default=[],
            metavar="NAME[=VALUE]",
            help="set a variable for the ranks, or pass on yours; values are neither shown nor recorded",
        )
        command.add_argument("--detach", action="store_true", help="return at once; `ddl show RUN` follows the run")
    run.add_argument(
        "script",
        nargs=argparse.PARSER,  # includes everything that follows, even a `--` for the script
        metavar="SCRIPT",
        help="a path, or the name of a script of the course, and its arguments",
    )
    rerun.add_argument("run", metavar="RUN", help=RUN)
    alloc = add_machine_command(
        commands,
        "alloc",
        _alloc,
        "open a shell with nodes of a Slurm cluster, which `ddl run` there uses",
        "alloc --nodes 2",
    )
    alloc.add_argument("--nodes", type=int, default=1, metavar="N", help="number of whole nodes (default 1)")
    alloc.add_argument("--site", metavar="FILE", help="the cluster's site file (default: found)")


def _add_looking(commands):
    listing = add_command(commands, "list", _list, "list runs, oldest first", "list --state failed --last 5")
    listing.add_argument("--state", metavar="STATE", help="only runs in this state, such as failed or training")
    listing.add_argument("--last", type=int, metavar="N", help="only the latest N runs")
    show = add_command(commands, "show", _show, "follow a run, or show one that is over", "show --no-follow")
    show.add_argument("--no-follow", action="store_true", help="show the present state and return")
    logs = add_command(commands, "logs", _logs, "print the output of a rank", "logs --rank 1 --follow")
    logs.add_argument("--rank", type=int, default=0, metavar="K", help="which rank (default 0)")
    logs.add_argument("-f", "--follow", action="store_true", help="continue until the run is over")
    stop = add_command(commands, "stop", _stop, "stop a run", "stop 20261127-101500")
    for command in (show, logs):
        command.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN} (default: the newest)")
    stop.add_argument("run", metavar="RUN", help=RUN)
    for command in (listing, show):
        command.add_argument("--json", action="store_true", help="print JSON; does not follow")
    remove = add_command(commands, "rm", _remove, "delete folders of runs that are over", "rm --older-than 30")
    remove.add_argument("run", nargs="*", metavar="RUN", help=RUN)
    remove.add_argument(
        "--older-than", type=float, metavar="DAYS", help="all runs launched at least this many days ago"
    )
    compare = add_command(
        commands, "compare", _compare, "compare runs in a table", "compare 20261127-101500 20261127-103000"
    )
    compare.add_argument("run", nargs="+", metavar="RUN", help=RUN)
    compare.add_argument(
        "--ranks",
        action="store_true",
        help="find the first step, rank and array in which a run's ranks, or two runs, differ: of recorded checksums",
    )
    doctor = add_machine_command(
        commands, "doctor", _doctor, "check this machine and its site, and suggest fixes", "doctor --submit"
    )
    doctor.add_argument("--site", metavar="FILE", help="check this site file")
    doctor.add_argument("--submit", action="store_true", help="run two ranks there too")


def _run(arguments):
    if arguments.np:
        raise InputError("-np is an option of horovodrun; here it is -n: `ddl run -n 2 train.py`")
    script, *args = [word for at, word in enumerate(arguments.script) if at or word != "--"]
    options = {name: getattr(arguments, name) for name in OPTIONS if hasattr(arguments, name)}
    script = MODULE + script if arguments.module else script
    return _launch(arguments, script=script, args=args, dry_run=arguments.dry_run, **options)


def _rerun(arguments):
    from ddl.follow.run import attach

    run = attach(arguments.run)
    if not run.job:
        raise InputError(f"{run.id} cannot be run again: its job.json is missing or damaged")
    given = {word.partition("=")[0] for word in arguments.env}
    arguments.env += sorted(set(run.job.get("env", ())) - given)  # with the values of this terminal
    os.chdir(run.job.get("cwd", "."))
    job = {name: run.job[name] for name in ("script", "args", *OPTIONS) if name in run.job}
    job["oversubscribe"] = True  # it fitted then
    job["name"] = arguments.name or run.job.get("name")
    return _launch(arguments, **job)


def _launch(arguments, **job):
    from ddl.start.launch import launch

    env = dict(map(_variable, arguments.env))
    job |= {"warm": False, "site": arguments.site, "env": env, "detach": arguments.detach}
    run = launch(**job, wait=False, check=False)
    if run and not arguments.detach:
        signal.signal(signal.SIGTERM, lambda *_: run.make_room())  # the machine is about to be taken away
        run.wait()
    if run and arguments.detach:
        print(f"{run.id} has started: `ddl show {run.id}` follows it, `ddl stop {run.id}` ends it")
        return 0
    return run.status if run else 0


def _alloc(arguments):
    from ddl.start.allocation import open_shell

    open_shell(arguments.nodes, arguments.site)


def _variable(word):
    name, given, value = word.partition("=")
    if not name:
        raise InputError(f'--env {word}: a name is missing before "="')
    if not given and name not in os.environ:
        raise InputError(f"--env {name}: this variable is not set here; use --env {name}=VALUE")
    return name, value if given else os.environ[name]


def _list(arguments):
    from ddl.follow.progress import STATES
    from ddl.follow.run import runs
    from ddl.text import did_you_mean

    if arguments.state and arguments.state not in STATES:
        known = did_you_mean(arguments.state, STATES) or f"; the states are: {', '.join(STATES)}"
        raise InputError(f"no state {arguments.state!r}{known}")
    if arguments.last is not None and arguments.last < 1:
        raise InputError(f"--last must be an integer >= 1, got {arguments.last}")
    found = [run for run in runs() if not arguments.state or run.state == arguments.state]
    found = found[-arguments.last :] if arguments.last else found
    if arguments.json:
        print(json.dumps([_facts(run) for run in found], indent=1))
        return
    if not found:
        print("no runs" + (" in this state" if arguments.state else " yet: `ddl run` starts one"), file=sys.stderr)
    for run in found:
        print(f"{run.id}  {run!r}")


def _facts(run):
    """Return facts about a run for programs."""
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

    run = _named_or_newest(arguments.run)
    if arguments.json:
        print(json.dumps(_facts(run) | {"result": run.result, "history": list(run.progress().history)}, indent=1))
    elif arguments.no_follow:
        view.of(run).close(run.progress())
    else:
        run.wait()
    return run.status if run.progress().over else 0


def _named_or_newest(run_id):
    from ddl.follow.run import attach, runs

    if run_id is not None:
        return attach(run_id)
    if found := runs():
        return found[-1]
    raise InputError("there are no runs yet: `ddl run` starts one")


def _logs(arguments):
    from ddl.follow.process_control import POLL_S
    from ddl.records.folder import RunFolder
    from ddl.records.log import LogTail

    run = _named_or_newest(arguments.run)
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
    from ddl.follow.run import attach

    run = attach(arguments.run)
    before = run.progress()
    run.stop()
    print(f"{run.id} is over already: {before.state}" if before.over else f"{run.id}  {run!r}")


def _remove(arguments):
    from ddl.follow.run import attach, runs

    if bool(arguments.run) == (arguments.older_than is not None):
        raise InputError("ddl rm needs either ids of runs or --older-than DAYS")
    if arguments.run:
        found = list({run.id: run for run in map(attach, arguments.run)}.values())
    elif not arguments.older_than >= 0:
        raise InputError(f"--older-than must be a number >= 0, got {arguments.older_than:g}")
    else:
        latest = time.time() - arguments.older_than * DAY_S
        found = [run for run in runs() if run.created <= latest and run.progress().over]
    if going := [run.id for run in found if not run.progress().over]:
        raise InputError(f"nothing was deleted, because {', '.join(going)} is not over: `ddl stop` ends a run")
    left = []
    for run in found:
        try:
            if run.folder.is_symlink():
                run.folder.unlink()
            else:
                (run.folder / "job.json").unlink(missing_ok=True)  # first: `Run` then keeps the end that it knows
                shutil.rmtree(run.folder)
            print(f"{run.id}  deleted")
        except OSError as error:
            left.append(f"{error.filename}: {error.strerror}")
    if not arguments.run:
        print(f"{plural(len(found) - len(left), 'run')} deleted")
    if left:
        raise InputError(f"{plural(len(left), 'run')} could not be deleted completely: {'; '.join(left)}")


def _compare(arguments):
    from ddl.comparison import compare
    from ddl.follow.run import attach

    found = [attach(run) for run in arguments.run]
    if not arguments.ranks:
        print(repr(compare(found)))
        return 0
    if len(found) > 2:
        raise InputError(f"--ranks compares one run's ranks, or two runs, got {len(found)}")
    difference = found[0].diverged(*found[1:])
    print(difference)
    return int(bool(difference))


def _doctor(arguments):
    from ddl.diagnose.machine import doctor

    report = doctor(site=arguments.site, submit=arguments.submit)
    print(report)
    return 0 if report.ok else 1
