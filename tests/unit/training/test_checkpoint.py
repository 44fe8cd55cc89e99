import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from course.training import checkpoint
from course.training.preemption import Preemption
from course.training.recipes import SettingError
from course.training.training_log import TrainingLog
from ddl.records.folder import StorageError
from ddl.records.jsonfiles import read_json_lines

SETTINGS = {"model": "cnn", "seed": 0}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUN_DIR", str(tmp_path))
    return tmp_path


def variables(value):
    return [tf.Variable(tf.fill([2, 3], float(value))), tf.Variable(value, dtype=tf.int64)]


def test_checkpoint_restores_variables_and_state(folder, monkeypatch):
    path = checkpoint.save(variables(7), {"step": 12, "totals": [0.5]}, SETTINGS)
    other = variables(0)
    assert checkpoint.restore(path, other, SETTINGS) == {"step": 12, "totals": [0.5]}
    np.testing.assert_array_equal(other[0], np.full((2, 3), 7.0))
    assert other[1].numpy() == 7
    with pytest.raises(SettingError, match="seed is 1 now but was 0"):
        checkpoint.restore(path, variables(0), {**SETTINGS, "seed": 1})

    # It is found by file, folder and run.
    assert checkpoint.find(path) == checkpoint.find(folder) == folder / checkpoint.FILE
    monkeypatch.setenv("DDL_RUNS_DIR", str(folder.parent))
    assert checkpoint.find(folder.name) == path


def test_failed_write_keeps_the_previous_checkpoint(folder, monkeypatch):
    path = checkpoint.save(variables(7), {"step": 1}, SETTINGS)
    monkeypatch.setattr(checkpoint.np, "savez", lambda file, **_: (file.write(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        checkpoint.save(variables(8), {"step": 2}, SETTINGS)
    assert checkpoint.restore(path, variables(0), SETTINGS) == {"step": 1}
    assert os.listdir(folder) == [path.name]


def test_the_checkpoint_before_is_kept_and_found(folder, capsys):
    for step in (1, 2, 3):
        path = checkpoint.save(variables(step), {"step": step}, SETTINGS)
    assert sorted(os.listdir(folder)) == sorted([checkpoint.FILE, checkpoint.BEFORE])
    assert checkpoint.restore(path, variables(0), SETTINGS) == {"step": 3} and not capsys.readouterr().out
    path.unlink()  # as where a rank was ended between two renamings
    assert checkpoint._left_by_this_run() == folder / checkpoint.BEFORE


@pytest.fixture
def kept(folder, monkeypatch):
    """Return a function that takes five steps, and gives the steps of checkpoints and all notes."""

    def train(every, at_once=None):
        log = TrainingLog(True, steps=9, steps_per_epoch=9, global_batch=1)
        weights = variables(0)
        monkeypatch.setattr(checkpoint, "average_statistics", lambda some: some[0].assign(7))
        checkpoints = checkpoint.Checkpoints(weights, SETTINGS, every, weights[1:])
        log.start()
        for step in range(1, 6):
            weights[0].assign_add(tf.ones([2, 3]))
            checkpoints.save_if_due(step, log, lambda: {"totals": [0.5]}, at_once=step == at_once)
        checkpoints.finish(log)
        events = read_json_lines(folder / "events.jsonl")
        notes = [event["message"] for event in events if event["event"] == "note"]
        return [(event["step"], event["reason"]) for event in events if event["event"] == "checkpoint"], notes

    return train


def damaged(path, **changes):
    with checkpoint.np.load(path) as file:
        arrays = {**file, **changes}
    checkpoint.np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


DAMAGES = {
    "a cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "the first array": lambda path: damaged(path, variable_0=None),
    "the last array": lambda path: damaged(path, variable_1=None),
    "a step as text": lambda path: damaged(path, text=json.dumps({"state": {"step": "x"}, "settings": SETTINGS})),
    "settings as a list": lambda path: damaged(path, text=json.dumps({"state": {"step": 1}, "settings": []})),
    "a directory": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_any_damage_leads_to_the_earlier_checkpoint(folder, capsys, horovod, damage):
    for step in (2, 3):
        path = checkpoint.save(variables(step), {"step": step}, SETTINGS)
    damage(path)
    assert checkpoint.resume(None, other := variables(0), SETTINGS) == {"step": 2} and other[1].numpy() == 2
    assert f"{path} is damaged: resuming" in capsys.readouterr().out
    (folder / checkpoint.BEFORE).unlink()
    with pytest.raises(SettingError, match="cannot be resumed"):
        checkpoint.resume(None, variables(0), SETTINGS)


def test_checkpoint_that_cannot_be_replaced_is_a_storage_error(folder, monkeypatch):
    checkpoint.save(variables(1), {"step": 1}, SETTINGS)

    def immutable(path, other):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(checkpoint.Path, "replace", immutable)
    with pytest.raises(StorageError, match="Operation not permitted"):
        checkpoint.save(variables(2), {"step": 2}, SETTINGS)


def test_checkpoints_at_intervals_and_on_demand(kept, folder):
    assert kept(every=2, at_once=5) == ([(2, "every 2 steps"), (4, "every 2 steps"), (5, "time limit")], [])
    state = checkpoint.restore(folder / checkpoint.FILE, last := variables(0), SETTINGS)
    assert state["step"] == 5 and state["totals"] == [0.5] and state["log"]["history"] == []
    # The ranks have synchronized, so their variables match the checkpoint.
    assert last[0].numpy()[0, 0] == 5 and last[1].numpy() == 7


@pytest.fixture
def horovod():
    hvd = pytest.importorskip("horovod.tensorflow")
    hvd.init()


def test_run_resumes_from_its_own_checkpoint_first(folder, tmp_path_factory, monkeypatch, horovod):
    assert checkpoint.resume(None, variables(0), SETTINGS) is None
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("DDL_RUN_DIR", str(elsewhere))
    checkpoint.save(variables(1), {"step": 1}, SETTINGS)
    monkeypatch.setenv("DDL_RUN_DIR", str(folder))
    assert checkpoint.resume(elsewhere, variables(0), SETTINGS) == {"step": 1}
    checkpoint.save(variables(2), {"step": 2}, SETTINGS)
    other = variables(0)
    assert checkpoint.resume(elsewhere, other, SETTINGS) == {"step": 2}
    assert other[1].numpy() == 2
    monkeypatch.delenv("DDL_RUN_DIR")
    assert checkpoint.resume(elsewhere, other, SETTINGS) == {"step": 1}


def test_requeue_request_is_cleared_by_next_start(folder, horovod):
    checkpoint.leave(12, TrainingLog(True, steps=20, steps_per_epoch=9, global_batch=1))
    (line,) = (folder / "requeue").read_text().splitlines()
    assert json.loads(line) == {"step": 12, "reason": "time limit"}
    # A request that outlived a start would have a job requeued for ever, so it goes even then.
    (folder / checkpoint.FILE).write_bytes(b"damaged")
    with pytest.raises(SettingError):
        checkpoint.resume(None, variables(0), SETTINGS)
    assert not (folder / "requeue").exists()


@pytest.fixture
def urgent():
    """Return a function that sends this process the signal; put the handler back afterward."""
    before = signal.getsignal(signal.SIGURG)
    yield lambda: os.kill(os.getpid(), signal.SIGURG)
    signal.signal(signal.SIGURG, before)


def test_signal_gives_notice_inside_a_run_only(folder, monkeypatch, urgent):
    monkeypatch.delenv("DDL_RUN_DIR")
    outside = Preemption()
    urgent()
    assert not outside.announced and signal.getsignal(signal.SIGURG) is signal.SIG_DFL
    monkeypatch.setenv("DDL_RUN_DIR", str(folder))
    preemption = Preemption()
    assert not preemption.announced
    urgent()
    urgent()
    assert preemption.announced and not outside.announced


def test_early_signal_is_delivered_later(folder, script):
    early = script("""
        import os, signal
        os.kill(os.getpid(), signal.SIGURG)
        from course.training.preemption import Preemption
        print("given:", Preemption().announced)
    """)
    subprocess.run([sys.executable, "-m", "ddl.rank", "--threads", "1", early], check=True)
    assert (folder / "rank-0.log").read_text().endswith("given: True\n")  # TensorFlow may say more
