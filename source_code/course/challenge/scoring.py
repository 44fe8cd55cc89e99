"""Score a submission: pairs of runs with the baseline, whose seeds are noted before the first one."""

import os
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from course.challenge import rules
from course.challenge.clock import Clock, Failed, start_trainer
from course.challenge.images import choose, private_images, shared, training_images
from course.challenge.report import Report, known_share, report
from course.challenge.submission import BASELINE, find, read, sha256
from course.challenge.verdict import Score
from ddl.errors import CourseError
from ddl.records.jsonfiles import read_json, write_json
from ddl.records.paths import runs_dir

NAME = "score.json"
NEEDS = {"name": str, "data": str, "trial": dict, "runs": list}


def score(
    path: str | Path,
    *,
    n: int = rules.RUNS,
    data_set: str = "auto",
    progress: Callable[[str], object] = print,
    start: Callable = start_trainer,
    cores: tuple[int, int] | None = None,
    root: Path | None = None,
    stop: threading.Event | None = None,
    **sizes: int,
) -> Score:
    """Score a submission: `n` runs, each paired with a run of the baseline with the same seed.

    A score that was interrupted resumes with its seeds; one that is done is returned as it is. `path` is a file, or the
    name of one of the course's own. `data_set` is "cifar10", "synthetic", or "auto": CIFAR-10 if it is here. `progress`
    gets a line after each run. `start` starts the process that trains, for example in a sandbox. `cores` are one for
    the file and one for the baseline, which change places after each run. `root` is the folder of the scores, and
    `stop` interrupts. `sizes` are smaller `samples`, `train_samples` or `private_samples`, to try things out: such a
    trial does not count, nor does a score with another `n`.
    """
    file, data, available = find(path), choose(data_set), sorted(os.sched_getaffinity(0))
    content, one, other = read(file), *(cores or (available[0], available[-1]))
    trial = {key: value for key, value in sizes.items() if value is not None} | ({"n": n} if n != rules.RUNS else {})
    images, labels = training_images(data, trial.get("train_samples"))
    parts = [sha256(content)[:16], data, *(f"{key}={value}" for key, value in trial.items())]
    folder = (root or runs_dir() / "challenge") / "-".join(parts)

    with shared(images, labels) as descriptor:
        known = read_json(folder / NAME, NEEDS)
        if known is None:
            bits = {"seed": 31, "secret": 62, "private": 62}  # the last one never reaches the process that trains
            seeds = [{name: secrets.randbits(count) for name, count in bits.items()} for _ in range(n)]
            known = {"data": data, "trial": trial, "runs": seeds}
        known["name"] = file.name
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / NAME, known)
        pairs = Pairs(known, content, labels, descriptor, start, stop or threading.Event())
        for number, run in enumerate(known["runs"], start=1):
            if "accuracy" not in run:
                pairs.play(run, (one, other) if number % 2 else (other, one))
                write_json(folder / NAME, known)
                reached = run.get("failure") or f"{run['accuracy']:.2%} of the private images"
                progress(f"{file.name}: run {number} of {n}, {reached}")
            if "failure" in run:  # then no others can make the score count
                break
    return score_of(known, report(content))


def score_of(known: dict, file: Report | None = None) -> Score:
    """Return what the runs of a ``score.json`` show."""
    done = [run for run in known["runs"] if "accuracy" in run]
    whole = [run for run in done if "failure" not in run]
    untrained = max((run["untrained"] for run in whole if run["untrained"] is not None), default=None)
    return Score(
        name=known["name"],
        accuracies=tuple(run["accuracy"] for run in done),
        samples=whole[0]["samples"] if whole else None,
        ratios=tuple(run["cpu_s"] / run["baseline_cpu_s"] for run in whole),
        failure=next((run["failure"] for run in done if "failure" in run), ""),
        left=len(known["runs"]) - len(done),
        data=known["data"],
        trial=bool(known["trial"]),
        report=file and replace(file, untrained=untrained),
    )


def scores(root: Path | None = None) -> list[Score]:
    """Return all scores in a folder, by default this machine's."""
    paths = (root or runs_dir() / "challenge").glob(f"*/{NAME}")
    return [score_of(known) for known in (read_json(path, NEEDS) for path in paths) if known]


@dataclass
class Pairs:
    """Runs of a file, each paired with one of the baseline."""

    known: dict  # what ``score.json`` holds
    content: bytes  # the file's
    labels: np.ndarray  # of the training images
    images: int  # the descriptor of `shared`
    start: Callable
    stop: threading.Event

    def play(self, run: dict, cores: tuple[int, int]) -> None:
        """Make one run of both, and note in `run` how the file's ended."""
        baseline = Clock(cores[1], self.stop)
        clock = Clock(cores[0], self.stop, baseline)
        with ThreadPoolExecutor(2) as pool:
            mine = pool.submit(self.train, clock, run, self.known["name"], self.content)
            theirs = pool.submit(self.train, baseline, run, BASELINE.name, BASELINE.read_bytes())
            try:
                failure, wrong = mine.exception(), theirs.exception()
            except BaseException:
                self.stop.set()
                raise
        if self.stop.is_set():
            raise KeyboardInterrupt
        if wrong:
            raise CourseError(f"the baseline failed: {wrong}. This is not your submission's fault: score it again")
        if isinstance(failure, Failed):
            run |= {"accuracy": rules.CHANCE, "failure": str(failure)}
        else:
            run |= mine.result() | {"cpu_s": clock.cpu_s, "baseline_cpu_s": baseline.cpu_s}

    def train(self, clock: Clock, run: dict, name: str, source: bytes) -> dict:
        """Train a file and return its accuracy; only this process has the private labels."""
        trial, truth = self.known["trial"], []
        request = {
            "name": name,
            "source": source.decode(),
            "count": len(self.labels),
            "samples": trial.get("samples"),
            "seed": run["seed"],
            "secret": run["secret"],
        }

        def private():
            images, labels = private_images(self.known["data"], run["private"], trial.get("private_samples"))
            truth.extend(labels.tolist())
            return images

        replies = clock.run(self.start, self.images, request, private)
        classes, samples = replies.get("classes"), replies.get("samples")
        if not isinstance(classes, list) or len(classes) != len(truth) or type(samples) is not int:
            raise Failed("it did not return one class for each private image")
        accuracy = float(np.mean([answer == label for answer, label in zip(classes, truth, strict=True)]))
        untrained = known_share(replies.get("untrained"), self.labels)
        return {"accuracy": accuracy, "samples": samples, "untrained": untrained}
