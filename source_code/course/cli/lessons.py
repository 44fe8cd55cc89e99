"""Commands about the course: lessons, the class, the challenge, JupyterLab and data sets."""

import sys
import time

from course.cli.clusters import save
from ddl.arguments import add_command


def add(commands):
    """Add the commands to the program's."""
    check = add_command(commands, "check", _check, "run a lesson's visible tests on your saved answers")
    check.add_argument(
        "notebook", metavar="LESSON_OR_FILE", help="a lesson's name or its beginning, or a notebook's path"
    )
    submit = add_command(commands, "submit", _submit, "hand in a lesson, as it is saved")
    submit.add_argument("notebook", metavar="LESSON_OR_FILE", help="as for `ddl check`")
    submit.add_argument("--into", metavar="FOLDER", help="a folder to hand it in to (default: the class's exchange)")
    hint = add_command(
        commands, "hint", _hint, "a hint for a question, and each time one more; only you see how many you took"
    )
    hint.add_argument("lesson", help="a lesson's name or its beginning")
    hint.add_argument("question", help="its id or its beginning, such as q03")
    fresh = add_command(
        commands, "fresh", _fresh, "write a lesson as it was released beside yours, which stays as it is"
    )
    fresh.add_argument("lesson", help="a lesson's name or its beginning")
    add_command(commands, "update", _update, "get the newest release of the course, and keep your work")
    add_command(commands, "progress", _progress, "where you stand: questions, points, runs, and what is next")
    share = add_command(
        commands, "share", _share, "show your instructor where you are, or end that; it says what is shown"
    )
    share.add_argument("what", choices=("on", "off"))
    seats = add_command(commands, "class", _class, "where the attendees are who share it, and what most do not pass")
    seats.add_argument("folder", nargs="?", help="the class's folder (default: that of DDL_CLASS)")
    seats.add_argument("--every", type=float, metavar="S", help="show it again every so many seconds")
    _add_challenge(commands)
    lab = add_command(commands, "lab", _lab, "open JupyterLab on the course in this folder; its own options follow")
    lab.set_defaults(passes_on=True)

    data = add_command(commands, "data", None, "data sets").add_subparsers(required=True, metavar="ACTION")
    fetch = add_command(data, "fetch", _data_fetch, "download or generate a data set")
    fetch.add_argument("name", choices=("cifar10", "svhn", "fashion_mnist", "synthetic"))
    keep = add_command(data, "add", _data_add, "keep a data set that you have downloaded by hand")
    keep.add_argument("name", choices=("quora",))
    keep.add_argument("file", help="train.csv of Quora's insincere questions, or a zip with it")
    add_command(data, "list", _data_list, "which data sets are here")


def _add_challenge(commands):
    challenge = add_command(commands, "challenge", None, "beat the clock: run, score and hand in a submission")
    actions = challenge.add_subparsers(required=True, metavar="ACTION")
    add_command(actions, "rules", _challenge_rules, "the rules, on a page")
    run = add_command(actions, "run", _challenge_run, "run a file once, and say what it reaches on the public images")
    run.add_argument("--seed", type=int, help="of what the run draws (default: a new one)")
    run.add_argument("--name", help="what figures call the run")
    score = add_command(actions, "score", _challenge_score, "score a file: all seeds, beside the baseline; it resumes")
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
    board = add_command(actions, "board", _challenge_board, "what has been scored here, beside the baseline")
    board.add_argument("--by", choices=("samples", "time"), default="samples", help="which board (default samples)")
    board.add_argument("--figure", metavar="FILE", help="draw it too, with your single runs: a .png or .svg")
    submit = add_command(actions, "submit", _challenge_submit, "pack a file, its records and versions to hand in")
    submit.add_argument("file", help="the submission's path")
    submit.add_argument("--into", metavar="ZIP", help="the archive (default: challenge-NAME.zip here)")


def _check(arguments):
    from course.grader.check import check_file
    from course.grader.notebooks import find_notebook

    answers = check_file(find_notebook(arguments.notebook))
    print(answers)
    return 0 if answers.passed else 1


def _hint(arguments):
    from course.grader.hints import hint

    print(hint(arguments.question, arguments.lesson))


def _fresh(arguments):
    from course.lab.update import fresh

    print(f"{fresh(arguments.lesson)} is the lesson as it was released")


def _update(arguments):
    from course.lab.update import update

    print(update())


def _progress(arguments):
    from course.grader.progress import progress

    print(progress())


def _share(arguments):
    from course.grader.classroom import share

    print(share(arguments.what == "on"))


def _class(arguments):
    from course.grader.classroom import classroom

    while True:
        print(classroom(arguments.folder), flush=True)
        if not arguments.every:
            return
        time.sleep(arguments.every)
        print()


def _submit(arguments):
    from course.grader.handin import hand_in

    print(hand_in(arguments.notebook, arguments.into))


def _lab(arguments):
    from course.lab import open_lab

    open_lab(arguments.args)


def _challenge_rules(arguments):
    from course.challenge.rules import RULES

    print(RULES, end="")


def _challenge_options(arguments):
    names = ("workers", "site", "oversubscribe", "data_set")
    names += ("samples", "train_samples", "public_samples", "private_samples")
    return {name: getattr(arguments, name) for name in names}


def _challenge_run(arguments):
    from course.challenge.attempt import run

    print(run(arguments.file, seed=arguments.seed, name=arguments.name, **_challenge_options(arguments)))


def _challenge_score(arguments):
    from course.challenge.scoring import ScoreInterrupted, score

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
    from course.challenge.standings import attempts, board

    found = board(arguments.by)
    print(found)
    if arguments.figure:
        from course.challenge.plot_challenge import plot_challenge

        save(plot_challenge(found, attempts()), arguments.figure, dpi=150)


def _challenge_submit(arguments):
    from course.challenge.handin import submit

    print(f"{submit(arguments.file, arguments.into)} is what to hand in")


def _data_fetch(arguments):
    from course.data import fetch

    fetch(arguments.name)


def _data_add(arguments):
    from course.data import add

    add(arguments.name, arguments.file)


def _data_list(arguments):
    from course.data import listing

    for row in listing():
        print(row)
