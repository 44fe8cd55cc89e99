"""Scores: seeds first, none left out, and each run paired with the baseline."""

import json
import re

import numpy as np
import pytest

from course.challenge import clock, images, rules, scoring
from ddl.errors import CourseError
from ddl.records.paths import runs_dir
from submissions import LABELS, TINY, Stage, StandInChannel


@pytest.fixture
def stage(monkeypatch):
    return Stage(monkeypatch)


@pytest.fixture
def score(script):
    """Return a function that scores a file's text quietly, on generated images."""

    def run(text=TINY, name="mine.py", **options):
        return scoring.score(script(text, name), **{"data_set": "synthetic", "progress": str, **options})

    return run


def kept():
    """Return the one file that scores have written."""
    (path,) = runs_dir().glob("challenge/*/score.json")
    return json.loads(path.read_text())


def test_score_is_five_pairs_on_alternating_cores(stage, score):
    said = []
    found = score(progress=said.append, cores=(3, 4))
    assert found.accuracies == (0.95,) * 5 and found.ratios == (0.8,) * 5 and found.samples == 180_224
    assert found.counts and found.report.untrained == 0.19 and len(set(stage.seeds)) == 5
    assert [core for _, core in stage.starts] == [3, 4, 3, 4, 3]
    assert len(said) == 5 and "run 5 of 5" in said[-1]
    assert score() == found and len(stage.seeds) == 5  # nothing is run again


def test_interrupted_score_keeps_its_seeds(stage, score):
    stage.plan[2] = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        score()
    noted = [(run["seed"], run["secret"]) for run in kept()["runs"]]
    assert stage.seeds == noted[:3] and ["accuracy" in run for run in kept()["runs"]] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert score().accuracies == (0.95,) * 5
    assert stage.seeds == [*noted[:3], *noted[2:]]


def test_failed_run_counts_as_chance(stage, score):
    stage.plan[1] = "mine.py, line 3: RuntimeError: unlucky"
    found = score()
    assert found.accuracies == (0.95, rules.CHANCE) and len(found.ratios) == 1 and not found.counts
    assert "unlucky" in repr(found) and score() == found and len(stage.seeds) == 2


def test_machine_error_does_not_count_against_a_file(stage, score):
    stage.accuracy = "the disk is full"  # also the baseline's end
    with pytest.raises(CourseError, match="not your submission's fault"):
        score()
    assert not any("accuracy" in run for run in kept()["runs"])
    stage.accuracy = 0.95
    assert score().counts


@pytest.mark.parametrize("options", [{"n": 4}, {"samples": 1024}, {"train_samples": 50}])
def test_trial_does_not_count(stage, score, options):
    assert score(**options).trial and not score(**options).counts
    assert score().counts


def test_private_labels_never_leave_the_judge(monkeypatch):
    """A process that doesn't return a class for each image has failed."""
    monkeypatch.setattr(clock.Clock, "_usage", staticmethod(lambda channel: ([], 0.0, 0)))
    shown, truth = images.private_images("synthetic", 7, 60)
    asked = []

    def private(*arguments):
        asked.append(len(channel.requests))
        assert arguments[1] == 7  # which is in no request
        return shown, truth

    monkeypatch.setattr(scoring, "private_images", private)

    def judged(answers=None):
        pairs = scoring.Pairs({"data": "synthetic", "trial": {}}, b"", LABELS, 9, lambda *_: channel, stop=None)
        return pairs.train(timed, {"seed": 1, "secret": 2, "private": 7}, "mine.py", b"A = 1\n")

    timed = clock.Clock(0, scoring.threading.Event())
    monkeypatch.setattr(clock.os, "sched_setaffinity", lambda *_: None)
    channel = StandInChannel([*truth[:30].tolist(), *[-1] * 30])
    assert judged()["accuracy"] == 0.5
    assert asked == [2] and [request.get("do") for request in channel.requests] == [None, "train", "predict"]
    assert set(channel.requests[1]) == {"do", "images", "name", "source", "count", "samples", "seed", "secret"}
    assert set(channel.requests[2]) == {"do", "images"} and np.array_equal(channel.shown(), shown)
    assert channel.killed  # so that nothing goes on
    for wrong in ({"classes": [1] * 59}, {"classes": 0.99}, {"accuracy": 1.0}):
        channel = StandInChannel(answers={"predict": wrong})
        with pytest.raises(clock.Failed, match="one class for each"):
            judged()


MEBI = 2**20
LIMITS = {
    "nothing": ({}, None),
    "another process": ({"processes": ["trainer", "other"]}, "another process"),
    "a second core": ({"cpu_s": 60.0}, "more than its one core"),
    "time": ({"wall_s": 401.0}, "4 times the time of the baseline"),
    "time, before the baseline has finished": ({"wall_s": 401.0, "baseline_s": 0.0}, None),
    "memory": ({"memory": 401 * MEBI}, "4 times the memory of the baseline"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_relative_to_the_baseline(name, monkeypatch):
    given, reason = LIMITS[name]
    given = {"processes": ["trainer"], "cpu_s": 40.0, "wall_s": 50.0, "memory": 50 * MEBI, "baseline_s": 100.0, **given}

    stop = scoring.threading.Event()
    baseline = clock.Clock(0, stop)
    mine = clock.Clock(1, stop, baseline)
    baseline.wall_s, baseline.peak_bytes = given["baseline_s"], 100 * MEBI
    mine._given, mine._before_s, mine._began = ["trainer"], 0.0, 0.0
    monkeypatch.setattr(clock.time, "monotonic", lambda: given["wall_s"])
    monkeypatch.setattr(mine, "_usage", lambda channel: (given["processes"], given["cpu_s"], given["memory"]))
    found = mine._measure(None)
    assert found is None if reason is None else re.search(reason, found)
    stop.set()
    assert mine._measure(None) == "it was interrupted"
