"""Commands for the course: lessons, the class, the challenge, JupyterLab and data sets."""

import time
from functools import partial

from course.cli.topology import save
from ddl import arguments

add_command = partial(arguments.add_command, group="lessons")


def add(commands):
    """Add the commands to the program's."""
    check = add_command(commands, "check", _check, "run a lesson's visible tests on your saved answers", "check 1")
    check.add_argument(
        "notebook", metavar="LESSON_OR_FILE", help="a lesson's name or its first characters, or a notebook's path"
    )
    submit = add_command(commands, "submit", _submit, "hand in a saved lesson", "submit 1")
    submit.add_argument("notebook", metavar="LESSON_OR_FILE", help="as for `ddl check`")
    submit.add_argument("--into", metavar="FOLDER", help="folder for the hand-in (default: the class's exchange)")
    hint = add_command(
        commands, "hint", _hint, "show the next hint for a question; only you see how many you took", "hint 1 q03"
    )
    hint.add_argument("lesson", help="a lesson's name or its first characters")
    hint.add_argument("question", help="its id or its first characters, such as q03")
    fresh = add_command(commands, "fresh", _fresh, "write a fresh copy of a lesson next to yours", "fresh 1")
    fresh.add_argument("lesson", help="a lesson's name or its first characters")
    add_command(commands, "update", _update, "get the newest release of the course, and keep your work", "update")
    add_command(
        commands, "progress", _progress, "show your progress: questions, points, runs, and next steps", "progress"
    )
    share = add_command(
        commands, "share", _share, "share your progress with your instructor, or stop sharing", "share on"
    )
    share.add_argument("what", choices=("on", "off"))
    seats = add_command(
        commands,
        "class",
        _class,
        "show the shared progress of a class, and the questions that most fail",
        "class --every 60",
    )
    seats.add_argument("folder", nargs="?", help="the class's folder (default: that of DDL_CLASS)")
    seats.add_argument("--every", type=float, metavar="S", help="repeat every N seconds")
    _add_challenge(commands)
    lab = add_command(
        commands, "lab", _lab, "open JupyterLab on the course in this folder; accepts its options", "lab --no-browser"
    )
    lab.set_defaults(passes_on=True)

    data = add_command(commands, "data", None, "fetch, add or list data sets", "data fetch cifar10").add_subparsers(
        required=True, metavar="ACTION"
    )
    fetch = add_command(data, "fetch", _data_fetch, "download or generate a data set")
    fetch.add_argument("name", help="cifar10, svhn or synthetic")
    keep = add_command(
        data, "add", _data_add, "add a data set that you have downloaded by hand", "data add quora train.csv"
    )
    keep.add_argument("name", choices=("quora",))
    keep.add_argument("file", help="train.csv of Quora's insincere questions, or a zip with it")
    add_command(data, "list", _data_list, "list the data sets on this machine")


def _add_challenge(commands):
    challenge = add_command(
        commands, "challenge", None, "beat the clock: score a submission", "challenge score my_submission.py"
    )
    actions = challenge.add_subparsers(required=True, metavar="ACTION")
    add_command(actions, "rules", _challenge_rules, "show the rules")
    score = add_command(
        actions,
        "score",
        _challenge_score,
        "score a file in five runs; resumes if interrupted",
        "challenge score baseline.py",
    )
    score.add_argument("file", help="a path, or the name of one of the course's submissions")
    score.add_argument("--data-set", default="auto", help="auto, cifar10 or synthetic (default auto)")
    trial = score.add_argument_group("smaller sizes, to try things out; such a score does not count")
    trial.add_argument("--runs", type=int, metavar="N")
    for name in ("samples", "train-samples", "private-samples"):
        trial.add_argument(f"--{name}", type=int, metavar="N")
    board = add_command(actions, "board", _challenge_board, "show all scores on this machine, with the baseline")
    board.add_argument("--data-set", default="auto", help="auto, cifar10 or synthetic (default auto)")
    board.add_argument("--figure", metavar="FILE", help="also draw it: a .png or .svg")


def _check(arguments):
    from course.lab.check import check_file
    from course.lab.notebooks import find_notebook

    answers = check_file(find_notebook(arguments.notebook))
    print(answers)
    return 0 if answers.passed else 1


def _hint(arguments):
    from course.lab.hints import hint

    print(hint(arguments.question, arguments.lesson))


def _fresh(arguments):
    from course.lab.update import fresh

    print(f"{fresh(arguments.lesson)} is the lesson as it was released")


def _update(arguments):
    from course.lab.update import update

    print(update())


def _progress(arguments):
    from course.lab.progress import progress

    print(progress())


def _share(arguments):
    from course.lab.classroom import share

    print(share(arguments.what == "on"))


def _class(arguments):
    from course.lab.classroom import classroom

    while True:
        print(classroom(arguments.folder), flush=True)
        if not arguments.every:
            return
        time.sleep(arguments.every)
        print()


def _submit(arguments):
    from course.lab.handin import hand_in

    print(hand_in(arguments.notebook, arguments.into))


def _lab(arguments):
    from course.lab.jupyterlab import open_lab

    open_lab(arguments.args)


def _challenge_rules(arguments):
    from course.challenge.rules import RULES

    print(RULES, end="")


def _challenge_score(arguments):
    from course.challenge.rules import RUNS
    from course.challenge.scoring import score

    sizes = {name: getattr(arguments, name) for name in ("samples", "train_samples", "private_samples")}
    print(score(arguments.file, n=arguments.runs or RUNS, data_set=arguments.data_set, **sizes))


def _challenge_board(arguments):
    from course.challenge.standings import board

    found = board(arguments.data_set)
    print(found)
    if arguments.figure:
        from course.challenge.plot_challenge import plot_challenge

        save(plot_challenge(found), arguments.figure, dpi=150)


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
