"""The recordings of the challenge: its baseline, which the targets come from, and what `tools/reference.py` compares it
with.

Each is a list of arms: a submission of the course, perhaps with a few of its capitals changed. An arm without one of
the reference's tricks has its own rate and momentum, from the same kind of grid. All arms share their seeds, so
differences can be paired: runs with the same seed have the same order of images, class numbers and augmentation.
Launched runs provide accuracies and their history. They use one rank with more passes per global batch, which gives the
same gradients and norms, so two runs share two cores without waiting for each other. The scoring process provides
processor times.
"""

import os
import re
import statistics
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from convergence import Search
from course import data
from course.challenge.clock import Clock, start_trainer
from course.challenge.images import choose, shared, training_images
from course.challenge.rules import CHANCE
from course.challenge.scoring import Pairs
from course.challenge.submission import find, sha256
from course.training.journal import provenance
from ddl.errors import InputError
from recordings import TIMES, Recordings, rounded

SCRIPT = "train_submission.py"
WORKERS = 2
WIDEST = 6  # maximal number of settings in a grid
BEHIND = 0.02  # of accuracy, several times what seeds differ by: a setting so far behind is not tried again


@dataclass(frozen=True)
class Arm:
    """A submission of the course with some of its constants changed."""

    name: str
    file: str = "baseline.py"
    capitals: Mapping = field(default_factory=dict)

    def source(self) -> str:
        """Return the file's text with its constants changed. Raises InputError if one is missing."""
        text = find(self.file).read_text()
        for capital, value in self.capitals.items():
            text, found = re.subn(rf"(?m)^{capital} = [^#\n]*?(?=  #|$)", f"{capital} = {value!r}", text)
            if found != 1:
                raise InputError(f"{self.file} needs one line that starts with {capital} =, has {found}")
        return text


BASELINE = Arm("baseline")
REFERENCE = Arm("reference", "reference.py")

# The reference's tricks, and the file's constants without each.
TRICKS: dict[str, dict[str, Any]] = {
    "Muon": {"MUON": False},
    "whitening": {"WHITEN": False},
    "dirac start": {"DIRAC": False},
    "width late": {"WIDTHS": (64, 64, 64)},  # a similar number of multiplications
    "width late, equal weights": {"WIDTHS": (128, 128, 128)},
    "label smoothing": {"SMOOTHING": 0.0},
    "faster biases": {"BIAS_FASTER": 1.0},
    "triangular schedule": {"SCHEDULE": "cosine"},
    "faster norm statistics": {"NORM_MOMENTUM": 0.99},
    "small shifts": {"SHIFT": 0},
}
BFLOAT16 = {"PRECISION": "bfloat16"}
# Tricks are removed from one pass of a narrower network, in which a run takes half a minute.
SHORT = BFLOAT16 | {"SAMPLES": 45_056, "WIDTHS": (32, 96, 192)}
WHOLE = Arm("one pass", "reference.py", SHORT)
ONE_PASS = [WHOLE, *(Arm(f"without {trick}", "reference.py", SHORT | left_out) for trick, left_out in TRICKS.items())]
LONGER = Arm("longer, in bfloat16", "reference.py", BFLOAT16 | {"SAMPLES": 387_072})
TIMED = [BASELINE, REFERENCE, LONGER]


def tuned(arm: Arm, rate: float, rest: float) -> Arm:
    """Return an arm with other settings of both optimizers: `rate` times the learning rate, `rest` times 1 − momentum.

    The rate is also scaled by `rest`, so that a gradient's total effect is the same.
    """
    text = REFERENCE.source()
    value = {name: float(found) for name, found in re.findall(r"(?m)^(\w*(?:PEAK|MOMENTUM)) = ([\d.]+)", text)}
    capitals = {name: round(value[name] * rate * rest, 5) for name in ("PEAK", "MUON_PEAK")}
    capitals |= {name: round(max(0.0, 1 - (1 - value[name]) * rest), 5) for name in ("MOMENTUM", "MUON_MOMENTUM")}
    return Arm(arm.name, arm.file, {**arm.capitals, **capitals})


def mean_accuracies(tuning: Iterable[dict]) -> dict:
    """Return the mean public accuracy of each setting (rate, rest) of an arm's tuning runs."""
    found = defaultdict(list)
    for run in tuning:
        found[run["rate"], run["rest"]].append(run["public_accuracy"])
    return {setting: statistics.fmean(some) for setting, some in found.items()}


def chosen(tuning: Iterable[dict]) -> tuple:
    """Return the best setting (rate, rest) of an arm's tuning runs."""
    means = mean_accuracies(tuning)
    return max(means, key=means.get)


@dataclass(frozen=True)
class Size:
    """Size of the recordings: full, or small to check that recording works."""

    baseline: int = 20
    generated: int = 10  # of the baseline, on generated images
    others: int = 5
    tuning: tuple = (1_000, 1_001, 1_002)  # seeds that settings are chosen with
    arms: int | None = None  # limit of each list
    trial: Mapping = field(default_factory=dict)


SIZES = {
    "reader": Size(),
    "smoke": Size(2, 1, 1, arms=1, trial=dict(samples=2_048, train_samples=2_048, public_samples=200)),
}


class Scored(Recordings):
    """Runs of the course's submissions, shortened by `trial`, with their private accuracy."""

    def __init__(self, work: Path, data_set: str, trial: Mapping):
        super().__init__(work)
        self.data_set, self.trial = data_set, trial

    def accuracies(self, arms: Iterable[Arm], seeds: Iterable[int], workers: int = 1) -> list[dict]:
        """Return the results of all arms on all seeds, without times, because runs are in parallel.

        A result adds ``arm`` and ``private_accuracy`` to the output of train_submission.py.
        """
        pairs = [(arm, seed) for seed in seeds for arm in arms]
        results = self.together(lambda arm, seed: self._result(arm, seed, workers), *zip(*pairs, strict=True))
        return [without_times(result) for result in results]

    def tune(self, arm: Arm, seeds: tuple) -> tuple[Arm, list[dict]]:
        """Return the arm with the setting that has the best mean accuracy on public images, and all results tried.

        The settings are a grid of rates, then a grid of momenta at the best rate, which grow like lesson 4's. A setting
        that is clearly behind with the first seed gets no others.
        """
        results: list = []

        def reached(rate, rest=1.0):
            means = mean_accuracies(results)
            if (rate, rest) not in means:
                setting = tuned(arm, rate, rest)
                runs = self.accuracies([setting], seeds[:1])
                if runs[0]["public_accuracy"] > max(means.values(), default=0) - BEHIND:
                    runs += self.accuracies([setting], seeds[1:])
                for run in runs:
                    run.pop("private_accuracy")  # not used for a choice
                    results.append({**run, "role": "tuning", "rate": rate, "rest": rest})
            return mean_accuracies(results)[rate, rest]

        best = Search(1.0, lambda rate: -reached(rate), WIDEST).best()
        Search(1.0, lambda rest: -reached(best, rest), WIDEST).best()
        return tuned(arm, *chosen(results)), results

    def times(self, arms: Iterable[Arm], seeds: Iterable[int]) -> list[dict]:
        """Return results of arms that alternate as in a score, with times and the machine's load before."""
        return [without_paths(self._kept("times", self._time, arm, seed)) for seed in seeds for arm in arms]

    def _result(self, arm, seed, workers):
        return self._kept("accuracy", self._make, arm, seed, workers)

    def _kept(self, kind, make, arm, seed, workers=1):
        source = arm.source()
        facts = [source, BASELINE.source(), self.data_set, seed, workers, kind, dict(self.trial)]
        result = self.kept(facts, lambda: make(arm, source, seed, workers), workers)
        return {**result, "arm": arm.name}

    def _make(self, arm, source, seed, workers):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, arm.file)
            path.write_text(source)
            settings = {"file": path, "seed": seed, "private": True, "data_set": self.data_set, **self.trial}
            result = self.finished(SCRIPT, arm.name, workers=workers, threads=1, **settings).result
        reached = CHANCE if result["diverged"] else result["private_accuracy"]
        print(f"{datetime.now():%H:%M:%S}  {arm.name}, seed {seed}: {reached:.2%}", flush=True)
        return {**result, "private_accuracy": reached}

    def _time(self, arm, source, seed, workers):
        name, load = choose(self.data_set), os.getloadavg()[0]
        trial = {key: self.trial[key] for key in ("samples", "train_samples") if key in self.trial}
        known = {"name": arm.file, "data": name, "trial": trial | {"private_samples": self.trial.get("public_samples")}}
        form = data.load(name, train_samples=1, test_samples=1).form
        images, labels = training_images(name, self.trial.get("train_samples"))
        stop = threading.Event()
        clock = Clock(max(os.sched_getaffinity(0)), stop)
        with shared(images, labels) as descriptor:
            pairs = Pairs(known, b"", labels, descriptor, start_trainer, stop)
            found = pairs.train(clock, {"seed": seed, "secret": seed, "private": seed}, arm.file, source.encode())
        print(f"{datetime.now():%H:%M:%S}  {arm.name}, seed {seed}: {clock.cpu_s:.1f} s", flush=True)
        return {
            **provenance(),
            "script": "trainer.py",
            "challenge": {"file": sha256(source.encode()), "file_name": arm.file},
            "data": {"name": name, "form": form, "train_samples": len(labels)},
            "private_accuracy": found["accuracy"],
            "samples": found["samples"],
            "seed": seed,
            "seconds": clock.wall_s,
            "cpu_seconds": clock.cpu_s,
            "trial": bool(self.trial),
            "diverged": False,
            "load_before": load,
        }


PATHS = {"argv", "config"}  # fields of a result with paths on the recording machine


def without_paths(result: dict) -> dict:
    """Return a result without paths, its figures rounded."""
    return rounded({key: value for key, value in result.items() if key not in PATHS})


def without_times(result: dict) -> dict:
    """Return a result without paths and times."""
    left_out = {"start_s", "epoch_seconds", "cpu_seconds", "load_before", *TIMES}
    result = {key: value for key, value in without_paths(result).items() if key not in left_out}
    history = [{key: value for key, value in row.items() if key not in left_out} for row in result["history"]]
    return {**result, "history": history}
