import json

import pytest

from ddl import journal
from ddl.journal import Journal


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is moved."""

    class Clock:
        now = 100.0

    monkeypatch.setattr(journal.time, "perf_counter", lambda: Clock.now)
    return Clock


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    (tmp_path / "job.json").write_text(json.dumps({"id": "a1", "name": "arm", "created": 0.0}))
    return tmp_path


def events(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]


FIGURES = {"loss": 2.0, "accuracy": 0.25, "test_loss": 2.5, "test_accuracy": 0.125,
           "learning_rate": 0.1}


def train(diary, clock, seconds_per_step, first=0):
    for step in range(first + 1, diary.steps + 1):
        clock.now += seconds_per_step(step)
        diary.step(step, 2.0, 0.1)
        if step % diary.steps_per_epoch == 0 or step == diary.steps:
            with diary.paused():
                clock.now += 1000  # an evaluation
            diary.evaluation(step, **FIGURES)


def test_the_speed_leaves_out_the_first_epoch_and_all_evaluations(clock, folder):
    diary = Journal(True, steps=12, steps_per_epoch=4, global_batch=64)
    diary.start(world=2)
    train(diary, clock, lambda step: 9.0 if step <= 4 else 2.0)
    result = diary.result(seed=0)
    assert result["images_per_s"] == pytest.approx(32)
    assert result["epoch_seconds"] == pytest.approx([36, 8, 8])
    assert result["train_seconds"] == pytest.approx(52)
    assert [row["images_per_s"] for row in result["history"]] == pytest.approx([64 / 9, 32, 32])
    assert [row["seconds"] for row in result["history"]] == pytest.approx([36, 44, 52])
    assert result["samples"] == 768 and result["steps"] == 12 and result["epochs"] == 3
    assert json.loads((folder / "result.json").read_text())["name"] == "arm"


def test_in_a_single_epoch_the_first_quarter_of_the_steps_is_left_out(clock, folder):
    diary = Journal(True, steps=8, steps_per_epoch=100, global_batch=10)
    diary.start()
    train(diary, clock, lambda step: 50.0 if step <= 2 else 1.0)
    assert diary.result()["images_per_s"] == pytest.approx(10)


def test_a_training_of_one_step_has_no_speed(clock, folder):
    diary = Journal(True, steps=1, steps_per_epoch=100, global_batch=10)
    diary.start()
    train(diary, clock, lambda step: 1.0)
    assert diary.result()["images_per_s"] is None


def test_steps_are_written_first_last_and_at_most_twice_a_second(clock, folder):
    diary = Journal(True, steps=21, steps_per_epoch=50, global_batch=10)
    diary.start()
    train(diary, clock, lambda step: 0.125)
    steps = [event for event in events(folder) if event["event"] == "step"]
    assert [event["step"] for event in steps] == [1, 5, 9, 13, 17, 21]
    assert [event["images_per_s"] for event in steps] == [None] + [pytest.approx(80)] * 5
    assert steps[1]["epoch"] == 0.1 and steps[1]["samples"] == 50


def test_a_loss_that_is_not_written_is_not_read(clock, folder):
    class Unread:
        def __float__(self):
            raise AssertionError("read")

    diary = Journal(True, steps=100, steps_per_epoch=50, global_batch=10)
    diary.start()
    clock.now += 0.25
    diary.step(1, 2.0, 0.1)
    diary.step(2, Unread(), 0.1)


def test_other_ranks_write_and_print_nothing(clock, folder, capsys):
    diary = Journal(False, steps=4, steps_per_epoch=2, global_batch=10)
    diary.start()
    diary.note("to be seen once")
    train(diary, clock, lambda step: 1.0)
    diary.result()
    assert [path.name for path in folder.iterdir()] == ["job.json"]
    assert capsys.readouterr().out == ""


def test_a_journal_carries_on_another(clock, folder):
    whole = Journal(True, steps=8, steps_per_epoch=2, global_batch=10)
    whole.start()
    train(whole, clock, lambda step: 1.0)
    half = Journal(True, steps=4, steps_per_epoch=2, global_batch=10)
    half.start()
    train(half, clock, lambda step: 1.0)
    state = json.loads(json.dumps(half.state()))
    rest = Journal(True, steps=8, steps_per_epoch=2, global_batch=10, state=state)
    rest.start(4)
    train(rest, clock, lambda step: 1.0, first=4)
    assert rest.history == whole.history
    assert rest.epoch_seconds == whole.epoch_seconds
    assert rest.result()["train_seconds"] == whole.result()["train_seconds"]
