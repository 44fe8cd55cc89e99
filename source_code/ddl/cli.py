"""The command line: `ddl run`, `list`, `show`, `stop`, `compare`, `check`, `challenge`, `doctor` and others."""

import argparse
import os
import signal
import sys
import time

from ddl.errors import CourseError, InputError
from ddl.launcher.roles import CLUSTERS
from ddl.words import plural

__all__ = ["main"]


def main(argv=None):
    """Run one command; return its exit status."""
    parser = _parser()
    arguments, rest = parser.parse_known_args(argv)
    if arguments.command is _lab:
        arguments.args = rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        status = arguments.command(arguments) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who reads this, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest goes nowhere
        return 128 + signal.SIGPIPE
    except (CourseError, OSError) as error:
        print(f"ddl: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ddl: stopped", file=sys.stderr)
        return 130


def _parser():
    parser = argparse.ArgumentParser(prog="ddl", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text):
        # No abbreviations: a script has options of its own, which may begin like one of these.
        sub = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(command=function)
        return sub

    run = command("run", _run, "run a script for Horovod, tf.distribute or torchrun on several workers")
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
    run.add_argument("--name", help="what tables and figures call the run")
    run.add_argument("--oversubscribe", action="store_true", help="allow more ranks than cores or GPUs")
    run.add_argument("--nodes", type=int, help="spread the ranks over so many nodes")
    run.add_argument("--site", metavar="FILE", help="where to run (default: found or detected)")
    run.add_argument(
        "--detach", action="store_true", help="return at once; the run goes on (`ddl show RUN` follows it)"
    )
    run.add_argument("--cold", action="store_true", help="no rank from a template that has TensorFlow imported")
    run.add_argument("--dry-run", action="store_true", help="print the command, run nothing")
    run.add_argument("script", help="a path, or the name of one of the course's scripts")
    run.add_argument("args", nargs=argparse.REMAINDER, help="the script's own arguments")

    command("list", _list, "list all runs")
    for name, function, text in (
        ("show", _show, "follow a run, or show one that is over"),
        ("stop", _stop, "stop a run"),
    ):
        command(name, function, text).add_argument("run", help="its id, or the beginning of it")
    command("compare", _compare, "compare runs in a table").add_argument("run", nargs="+", help="their ids")
    doctor = command("doctor", _doctor, "what is here, and what to do about what is not")
    doctor.add_argument("--site", metavar="FILE", help="check this site file")
    doctor.add_argument("--submit", action="store_true", help="run two ranks there, too")

    warm = command("warm", _warm, "keep TensorFlow imported, so that local launches take a second")
    warm.add_argument("--stop", action="store_true", help="end what was kept")

    topology = command("topology", _topology, "show how this machine is built, or another one")
    topology.add_argument(
        "machine",
        nargs="?",
        metavar="NAME_OR_FILE",
        help="a recorded one, a .toml file, XML of lstopo or the text of nvidia-smi topo -m (default: this machine)",
    )
    topology.add_argument(
        "--matrix", action="store_true", help="how far GPUs and network cards are apart, as nvidia-smi topo -m"
    )
    topology.add_argument("--figure", metavar="FILE", help="draw it, as .png, .svg or .pdf")

    predict = command("predict", _predict, "predict a training's scaling on a cluster of servers")
    predict.add_argument(
        "--topology", required=True, metavar="NAME_OR_FILE", help="of a server, as for `ddl topology`, with its network"
    )
    predict.add_argument(
        "--network",
        metavar="CARDSxGBIT",
        help="of a server, where the topology does not say: 8x200 is 8 cards of 200 Gbit/s",
    )
    predict.add_argument(
        "--link-gb-per-s",
        type=float,
        metavar="X",
        help="from a GPU to the next, per direction, where the topology does not say",
    )
    predict.add_argument("--nodes", type=int, default=1, help="up to so many servers (default 1)")
    predict.add_argument("--model", metavar="NAME", help="a published network, such as resnet50")
    predict.add_argument("--batch", type=int, default=64, help="samples of each GPU (default 64)")
    predict.add_argument("--parameters", type=int, metavar="N", help="of a network of your own, instead of --model")
    predict.add_argument(
        "--images-per-s", type=float, metavar="X", help="that one GPU trains with it (default: published for the model)"
    )
    predict.add_argument(
        "--gradient-bytes",
        type=int,
        default=4,
        metavar="N",
        help="of a parameter's gradient: 2 in half precision (default 4)",
    )
    predict.add_argument(
        "--fusion-threshold-mb",
        type=float,
        default=128,
        metavar="MB",
        help="gradients travel together up to so many MiB (default 128, Horovod's)",
    )
    predict.add_argument(
        "--baseline", type=int, default=1, metavar="N", help="efficiency is against N GPUs (default 1)"
    )
    predict.add_argument("--figure", metavar="FILE", help="draw it too: a .png or .svg")

    check = command("check", _check, "run a lesson's visible tests on your saved answers")
    check.add_argument(
        "notebook", metavar="LESSON_OR_FILE", help="a lesson's name or its beginning, or a notebook's path"
    )
    submit = command("submit", _submit, "hand in a lesson, as it is saved")
    submit.add_argument("notebook", metavar="LESSON_OR_FILE", help="as for `ddl check`")
    submit.add_argument("--into", metavar="FOLDER", help="a folder to hand it in to (default: the class's exchange)")
    hint = command("hint", _hint, "a hint for a question, and each time one more; only you see how many you took")
    hint.add_argument("lesson", help="a lesson's name or its beginning")
    hint.add_argument("question", help="its id or its beginning, such as q03")
    fresh = command("fresh", _fresh, "write a lesson as it was released beside yours, which stays as it is")
    fresh.add_argument("lesson", help="a lesson's name or its beginning")
    command("update", _update, "get the newest release of the course, and keep your work")
    command("progress", _progress, "where you stand: questions, points, runs, and what is next")
    share = command("share", _share, "show your instructor where you are, or end that; it says what is shown")
    share.add_argument("what", choices=("on", "off"))
    seats = command("class", _class, "where the attendees are who share it, and what most do not pass")
    seats.add_argument("folder", nargs="?", help="the class's folder (default: that of DDL_CLASS)")
    seats.add_argument("--every", type=float, metavar="S", help="show it again every so many seconds")
    _add_challenge(commands)
    command("lab", _lab, "open JupyterLab on the course in this folder; its own options follow")

    data = command("data", None, "data sets").add_subparsers(required=True, metavar="ACTION")
    fetch = data.add_parser("fetch", help="download or generate a data set")
    fetch.set_defaults(command=_data_fetch)
    fetch.add_argument("name", choices=("cifar10", "svhn", "synthetic"))
    add = data.add_parser("add", help="keep a data set that you have downloaded by hand")
    add.set_defaults(command=_data_add)
    add.add_argument("name", choices=("quora",))
    add.add_argument("file", help="train.csv of Quora's insincere questions, or a zip with it")
    data.add_parser("list", help="which data sets are here").set_defaults(command=_data_list)
    return parser


def _add_challenge(commands):
    text = "beat the clock: run, score and hand in a submission"
    actions = commands.add_parser("challenge", help=text, description=text)
    actions = actions.add_subparsers(required=True, metavar="ACTION")

    def action(name, function, text):
        sub = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        sub.set_defaults(command=function)
        return sub

    action("rules", _challenge_rules, "the rules, on a page")
    run = action("run", _challenge_run, "run a file once, and say what it reaches on the public pictures")
    run.add_argument("--seed", type=int, help="of what the run draws (default: a new one)")
    run.add_argument("--name", help="what figures call the run")
    score = action("score", _challenge_score, "score a file: all seeds, beside the baseline; it resumes")
    score.add_argument("--runs", type=int, help="runs to draw seeds for (default and least: 5)")
    score.add_argument("--again", action="store_true", help="add runs to a score that is done")
    score.add_argument(
        "--samples-only", action="store_true", help="without the baseline: no place on the board of times"
    )
    for sub in (run, score):
        sub.add_argument("file", help="a path, or the name of one of the course's submissions")
        sub.add_argument("-n", "--workers", type=int, default=2, help="ranks that share the global batch (default 2)")
        sub.add_argument("--site", metavar="FILE", help="where to run (default: found or detected)")
        sub.add_argument("--oversubscribe", action="store_true", help="allow more ranks than cores or GPUs")
        sub.add_argument("--data-set", default="auto", help="auto, cifar10 or synthetic (default auto)")
        trial = sub.add_argument_group("smaller sizes, to try things out; such a run never counts")
        for name in ("samples", "train-samples", "public-samples", "private-samples"):
            trial.add_argument(f"--{name}", type=int, metavar="N")
    board = action("board", _challenge_board, "what has been scored here, beside the baseline")
    board.add_argument("--by", choices=("samples", "time"), default="samples", help="which board (default samples)")
    board.add_argument("--figure", metavar="FILE", help="draw it too, with your single runs: a .png or .svg")
    submit = action("submit", _challenge_submit, "pack a file, its records and versions to hand in")
    submit.add_argument("file", help="the submission's path")
    submit.add_argument("--into", metavar="ZIP", help="the archive (default: challenge-NAME.zip here)")


def _run(arguments):
    from ddl.launcher.run import launch

    run = launch(
        arguments.script,
        workers=arguments.workers,
        args=tuple(arguments.args),
        name=arguments.name,
        threads=arguments.threads,
        timeout_s=arguments.timeout_s,
        oversubscribe=arguments.oversubscribe,
        dry_run=arguments.dry_run,
        cluster=arguments.cluster,
        parameter_servers=arguments.parameter_servers,
        nodes=arguments.nodes,
        site=arguments.site,
        detach=arguments.detach,
        warm=not arguments.cold,
        check=False,
    )
    if run and arguments.detach:
        print(f"{run.id} is on its way: `ddl show {run.id}` follows it, `ddl stop {run.id}` ends it")
        return 0
    return run.status if run else 0


def _list(arguments):
    from ddl.launcher.run import runs

    for run in runs():
        print(f"{run.id}  {run!r}")


def _show(arguments):
    from ddl.launcher.run import attach

    return attach(arguments.run).wait().status


def _stop(arguments):
    from ddl.launcher.run import attach

    run = attach(arguments.run)
    before = run.progress()
    run.stop()
    print(f"{run.id} was over already: {before.state}" if before.over else f"{run.id}  {run!r}")
    if run.unwritten:
        raise run.unwritten


def _compare(arguments):
    from ddl.analysis.comparison import compare
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


def _topology(arguments):
    from ddl import topology

    machine = topology.load(arguments.machine) if arguments.machine else topology.here()
    if arguments.matrix and not (machine.gpus or machine.nics):
        raise InputError(f"{machine.name} has neither GPUs nor network cards to compare")
    print(machine.matrix_text() if arguments.matrix else machine)
    if arguments.figure:
        from ddl.plot.topology import plot_topology

        _save(plot_topology(machine), arguments.figure, dpi=150)


def _predict(arguments):
    from ddl import topology
    from ddl.analysis import clusters, prediction

    machine = topology.load(arguments.topology)
    links = {"network": arguments.network, "link_gb_per_s": arguments.link_gb_per_s}
    predictions = clusters.scaling(
        machine,
        arguments.nodes,
        arguments.model,
        arguments.batch,
        parameters=arguments.parameters,
        images_per_s=arguments.images_per_s,
        gradient_bytes=arguments.gradient_bytes,
        baseline=arguments.baseline,
        fusion_bytes=arguments.fusion_threshold_mb * 2**20,
        **links,
    )
    what = arguments.model or f"{arguments.parameters:,} parameters"
    title = (
        f"{what} on {arguments.topology}, {arguments.batch} samples a GPU, gradients of "
        f"{arguments.gradient_bytes} bytes, efficiency against {plural(arguments.baseline, 'GPU')}. "
        f"{clusters.server(machine, **links).assumed}"
    ).strip()
    print(repr(prediction.table(predictions, title, clusters.MARGIN_POINTS)))
    if arguments.figure:
        from ddl.plot.prediction import plot_prediction

        _save(plot_prediction(predictions, margin_points=clusters.MARGIN_POINTS), arguments.figure)


def _save(figure, path, **options):
    try:
        figure.savefig(path, **options)
    except ValueError as error:  # of a suffix that Matplotlib does not write
        raise InputError(f"--figure {path}: {error}") from None


def _check(arguments):
    from ddl.grader.check import check_file, keep_file
    from ddl.grader.notebooks import find_notebook

    path = find_notebook(arguments.notebook)
    answers = check_file(path)
    print(answers)
    keep_file(path, answers)
    return 0 if answers.passed else 1


def _hint(arguments):
    from ddl.grader.hints import hint

    print(hint(arguments.question, arguments.lesson))


def _fresh(arguments):
    from ddl.lab.update import fresh

    print(f"{fresh(arguments.lesson)} is the lesson as it was released")


def _update(arguments):
    from ddl.lab.update import update

    print(update())


def _progress(arguments):
    from ddl.grader.progress import progress

    print(progress())


def _share(arguments):
    from ddl.grader.share import share

    print(share(arguments.what == "on"))


def _class(arguments):
    from ddl.grader.classroom import classroom

    while True:
        print(classroom(arguments.folder), flush=True)
        if not arguments.every:
            return
        time.sleep(arguments.every)
        print()


def _submit(arguments):
    from ddl.grader.handin import hand_in

    print(hand_in(arguments.notebook, arguments.into))


def _lab(arguments):
    from ddl.lab import open_lab

    open_lab(arguments.args)


def _challenge_rules(arguments):
    from ddl.challenge.rules import RULES

    print(RULES, end="")


def _challenge_options(arguments):
    names = ("workers", "site", "oversubscribe", "data_set")
    names += ("samples", "train_samples", "public_samples", "private_samples")
    return {name: getattr(arguments, name) for name in names}


def _challenge_run(arguments):
    from ddl.challenge.attempt import run

    print(run(arguments.file, seed=arguments.seed, name=arguments.name, **_challenge_options(arguments)))


def _challenge_score(arguments):
    from ddl.challenge.attempt import ScoreInterrupted, score

    try:
        found = score(
            arguments.file,
            again=arguments.again,
            beside=not arguments.samples_only,
            **({"n": arguments.runs} if arguments.runs is not None else {}),
            **_challenge_options(arguments),
        )
    except ScoreInterrupted as error:
        print(f"ddl: {error}", file=sys.stderr)
        return 130
    print(found)
    return 0


def _challenge_board(arguments):
    from ddl.challenge.standings import attempts, board

    found = board(arguments.by)
    print(found)
    if arguments.figure:
        from ddl.plot.challenge import plot_challenge

        _save(plot_challenge(found, attempts()), arguments.figure, dpi=150)


def _challenge_submit(arguments):
    from ddl.challenge.handin import submit

    print(f"{submit(arguments.file, arguments.into)} is what to hand in")


def _data_fetch(arguments):
    from ddl.data import fetch

    fetch(arguments.name)


def _data_add(arguments):
    from ddl.data import add

    add(arguments.name, arguments.file)


def _data_list(arguments):
    from ddl.data import listing

    for row in listing():
        print(row)


if __name__ == "__main__":
    sys.exit(main())
