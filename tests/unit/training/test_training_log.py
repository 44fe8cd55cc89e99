import json

import numpy as np
import pytest

pytest.importorskip("horovod.tensorflow")

from course.training import loop
from course.training.training_log import Means, TrainingLog


@pytest.fixture
def clock(monkeypatch):
    """Fake clock."""

    class Clock:
        now = 100.0

    monkeypatch.setattr("course.training.training_log.time.perf_counter", lambda: Clock.now)
    return Clock


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    (tmp_path / "job.json").write_text(json.dumps({"id": "a1", "name": "configuration", "created": 0.0}))
    return tmp_path


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


FIGURES = {"loss": 2.0, "accuracy": 0.25, "test_loss": 2.5, "test_accuracy": 0.125, "learning_rate": 0.1}


def started(steps, steps_per_epoch, at=0, **options):
    diary = TrainingLog(True, steps, steps_per_epoch, global_batch=10, **options)
    diary.start(at)
    return diary


def train(diary, clock, seconds_per_step, first=0):
    for step in range(first + 1, diary.steps + 1):
        clock.now += seconds_per_step(step)
        diary.step(step, 2.0, 0.1)
        if step % diary.steps_per_epoch == 0 or step == diary.steps:
            with diary.paused():
                clock.now += 1000  # an evaluation
            diary.evaluation(step, **FIGURES)


def test_speed_excludes_first_epoch_and_evaluations(clock, folder):
    diary = started(12, 4)
    train(diary, clock, lambda step: 9.0 if step <= 4 else 2.0)
    result = diary.result(seed=0)
    assert (result["images_per_s"], result["train_seconds"]) == pytest.approx((5, 52))
    assert result["epoch_seconds"] == pytest.approx([36, 8, 8])
    assert [row["images_per_s"] for row in result["history"]] == pytest.approx([10 / 9, 5, 5])
    assert [row["seconds"] for row in result["history"]] == pytest.approx([36, 44, 52])
    assert (result["samples"], result["steps"], result["epochs"]) == (120, 12, 3)
    assert json.loads((folder / "result.json").read_text())["name"] == "configuration"


def test_steps_are_written_first_last_and_at_most_twice_a_second(clock, folder):
    diary = started(21, 50)
    train(diary, clock, lambda step: 0.125)
    steps = [event for event in events(folder) if event["event"] == "step"]
    assert [event["step"] for event in steps] == [1, 5, 9, 13, 17, 21]
    assert [event["images_per_s"] for event in steps] == [None] + [pytest.approx(80)] * 5
    assert steps[1]["epoch"] == 0.1 and steps[1]["samples"] == 50

    class Unread:
        def __float__(self):
            raise AssertionError("a loss that is not written is read")

    diary = started(100, 50)
    clock.now += 0.25
    diary.step(1, 2.0, 0.1)
    diary.step(2, Unread(), 0.1)


def test_other_ranks_write_and_print_nothing(clock, folder, capsys):
    diary = TrainingLog(False, steps=4, steps_per_epoch=2, global_batch=10)
    diary.start()
    diary.note("to be seen once")
    train(diary, clock, lambda step: 1.0)
    diary.result()
    assert [path.name for path in folder.iterdir()] == ["job.json"]
    assert capsys.readouterr().out == ""


def interrupted(clock, steps, at, seconds_per_step):
    """Train in parts: stop after each step of `at`, go on from there in another log."""
    state = None
    for first, last in zip((0, *at), (*at, steps)):
        diary = TrainingLog(True, steps, steps_per_epoch=4, global_batch=10, state=state)
        diary.start(first)
        for step in range(first + 1, last + 1):
            clock.now += seconds_per_step(step) + (30 if step == first + 1 else 0)
            diary.step(step, 2.0, 0.1)
            if step % 4 == 0 or step == steps:
                diary.evaluation(step, **FIGURES)
        with diary.paused():
            clock.now += 1000  # writing the checkpoint is not training
            state = json.loads(json.dumps(diary.state()))
        clock.now += 9000  # waiting to be started again
    return diary


def test_interrupted_training_has_same_times(clock, folder):
    # The first step, and the first one after an interruption, take 31 s.
    diary = interrupted(clock, 16, at=(6, 11), seconds_per_step=lambda step: 1.0)
    result = diary.result()
    seconds = 36.0  # of 6 steps; what comes next counts as their mean, not as 31 s
    parts = [seconds, seconds + 6 + 4]
    whole = [*parts, parts[-1] * 12 / 11 + 4]
    assert result["train_seconds"] == pytest.approx(whole[-1])
    # The second epoch had two steps before the interruption and two after it.
    assert result["epoch_seconds"] == pytest.approx([34, 9, 3 + parts[-1] / 11, 4])
    assert [row["images_per_s"] for row in result["history"]] == pytest.approx(
        [10, 40 / 9, 40 / (3 + parts[-1] / 11), 10]
    )
    assert result["resumed_at"] == [6, 11]


@pytest.fixture
def row(clock):
    """Return a function that trains ten steps with the script's own loop, and gives the evaluations' rows."""

    def rows(steps_per_epoch, **options):
        diary = TrainingLog(True, steps=10, steps_per_epoch=steps_per_epoch, global_batch=10)

        def one_step(step, batch):
            clock.now += 1
            return np.float32([step + 1, 2 * step + 2]), 0.1

        def evaluate():
            clock.now += 1000
            return 2.5, 0.125

        diary.start()
        ended = loop.train(diary, ((step, None) for step in range(10)), one_step, evaluate=evaluate, **options)
        return diary, ended

    return rows


def test_loop_evaluates_at_epoch_ends_and_intervals(row, folder):
    diary, ended = row(4, every=3, evaluate_now=lambda done, diverged: done == 7, evaluate_clean=lambda: (1.5, 0.5))
    rows = diary.history
    assert ended is None and [each["step"] for each in rows] == [3, 4, 6, 7, 8, 9, 10]
    assert [each["loss"] for each in rows] == [2, 4, 5.5, 7, 8, 9, 10]
    assert rows[0]["accuracy"] == 4 and rows[0]["test_accuracy"] == 0.125 and rows[0]["learning_rate"] == 0.1
    # Training pictures as they are: where an epoch or the training ends.
    assert [each["step"] for each in rows if "clean_loss" in each] == [4, 8, 10]
    assert diary.result()["clean_accuracy"] == 0.5
    assert diary.seconds == pytest.approx(10)
    # It stops at an evaluation that says so.
    diary, ended = row(2, epochs=2, stop=lambda each: "target" if each["step"] == 8 else None)
    assert ended == "target" and [each["step"] for each in diary.history] == [4, 8]


def test_means_are_of_loss_and_accuracy_and_continue_from_a_checkpoint():
    means = Means()
    for loss in (1.0, 2.0):
        means.add(np.float32([loss, 0.5, 9.0]))
    state = means.state()
    assert state == {"since": 2, "totals": [3.0, 1.0]}
    means = Means()
    means.restore(state)
    means.add(np.float32([6.0, 0.5, 9.0]))
    assert means.pop() == [3.0, 0.5]
    means.add(np.float32([4.0, 1.0]))
    assert means.pop() == [4.0, 1.0]
