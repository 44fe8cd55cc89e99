"""Run several small trainings in this rank, one after the other, and write down what they did.

    train_worker.py FOLDER CASE...      on any number of ranks

For each case rank k writes FOLDER/<case>-<ranks>-<k>.npz: the weights at the start, after two
steps and at the end, and the samples that the rank used in every step. Rank 0 adds
FOLDER/<case>-<ranks>.json, the result. The case `script` runs the script itself, outside a run.
"""

import contextlib
import json
import os
import runpy
import signal
import sys
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np

import train_cifar
from course.data import DataSet

SMALL = ["--train-samples", "200", "--global-batch", "32", "--epochs", "2"]

CASES = {
    "plain": [],
    "sync_bn": ["--recipe", "batch_norm", "--sync-bn"],
    "ghost_bn": ["--recipe", "batch_norm"],
    "noise": ["--noise-scale"],
    "noticed": ["--noise-scale"],
    "noticed_at_the_end": [],
    "lars": ["--recipe", "lars", "--schedule", "cosine"],
    "resnet": ["--model", "resnet", "--optimizer", "adam", "--steps", "3"],
    "diverging": ["--learning-rate", "1e6", "--steps", "60"],
    "target": ["--target-accuracy", "0.05", "--evaluate-every", "2", "--epochs", "9"],
}
CASES["ghosts"] = [*CASES["ghost_bn"], "--ghost-batch", "8", "--statistics", "recomputed", "--noise-scale"]


def pictures(samples, seed):
    """Noise on ten patterns: something to learn, made in no time."""
    generator = np.random.default_rng(seed)
    patterns = np.random.default_rng(99).integers(0, 256, (10, 32, 32, 3))
    labels = generator.integers(0, 10, samples).astype(np.int32)
    noise = generator.integers(0, 256, (samples, 32, 32, 3))
    return ((patterns[labels] + 3 * noise) // 4).astype(np.uint8), labels


def small_data(name, *, train_samples=None, test_samples=None, held_out="test"):
    # 101 test pictures: no number of ranks divides them, and no batch.
    train, test = pictures(train_samples, 1), pictures(test_samples or 101, 2)
    return DataSet("small", "generated", *train, *test, tuple("0123456789"))


def run(case, folder, notice_at=None):
    """Train once; before step `notice_at` the last rank, and no other, is sent what announces the end of a job."""
    used, built, saved = [], [], {}

    def keep(when):
        saved.update({f"{when}_{index}": w for index, w in enumerate(built[0].get_weights())})

    make, build = train_cifar.make_train_step, train_cifar.models.build

    def spying_make(*args):
        train_step = make(*args)

        def spying_step(numbers, step, *others):
            if step == notice_at and hvd.rank() == hvd.size() - 1:
                os.kill(os.getpid(), signal.SIGURG)
            used.append(numbers)
            if step in (0, 2):
                keep("first" if step == 0 else "early")
            return train_step(numbers, step, *others)

        return spying_step

    def spying_build(*args, **options):
        built.append(build(*args, **options))
        return built[-1]

    os.environ["DDL_RUN_DIR"] = str(folder / f"{case}-{hvd.size()}")
    Path(os.environ["DDL_RUN_DIR"]).mkdir(exist_ok=True)
    train_cifar.load = small_data
    train_cifar.make_train_step, train_cifar.models.build = spying_make, spying_build
    try:
        result = train_cifar.main(train_cifar.parse_args([*SMALL, *CASES[case]]))
    finally:
        train_cifar.make_train_step, train_cifar.models.build = make, build
    if (
        case == "plain"
    ):  # each file that AutoGraph has to translate, Horovod's first of all, costs a start 0.1 s and more
        assert not [name for name in sys.modules if name.startswith("__autograph_generated_file")]
    keep("final")
    np.savez(folder / f"{case}-{hvd.size()}-{hvd.rank()}.npz", used=np.array(used), **saved)
    if hvd.rank() == 0:
        (folder / f"{case}-{hvd.size()}.json").write_text(json.dumps(result, default=str))
    return result


def run_script(folder):
    """Run the script as a person does, outside a run and in an empty folder; keep what it prints."""
    arguments = ["--steps", "3", "--data-set", "synthetic", "--train-samples", "400", "--test-samples", "100"]
    work = folder / "script"
    work.mkdir()
    os.environ["DDL_DATA_DIR"] = str(work)
    sys.argv = [train_cifar.__file__, *arguments]
    before = Path.cwd()
    os.chdir(work)
    with open(folder / "script.txt", "w") as out, contextlib.redirect_stdout(out):
        runpy.run_path(train_cifar.__file__, run_name="__main__")
    os.chdir(before)


def main():
    folder, cases = Path(sys.argv[1]), sys.argv[2:]
    hvd.init()
    for case in cases:
        if case == "script":
            run_script(folder)
        elif case == "noticed_at_the_end":
            run(case, folder, notice_at=10)  # it travels with the 12th step, which is the last
        elif case == "noticed":
            assert run(case, folder, notice_at=7) is None
            assert not (Path(os.environ["DDL_RUN_DIR"]) / "result.json").exists()
            if hvd.rank() == 0:
                marker = Path(os.environ["DDL_RUN_DIR"]) / "requeue"
                marker.rename(folder / f"{case}-requeue")
                marker.write_text("to be removed")
            run(case, folder)
        else:
            run(case, folder)


if __name__ == "__main__":
    main()
