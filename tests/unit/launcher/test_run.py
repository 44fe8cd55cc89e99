"""Run folders that are damaged, or cannot be used: each is named, and none hides another."""

import json
import os

import pytest

from ddl import attach, launch, runs
from ddl.cli import main
from ddl.errors import NotFound
from ddl.records.folder import RunFolder, StorageError
from ddl.records.jsonfiles import FULL, DamagedFile, write_json
from ddl.records.machine import host_name
from ddl.records.recorder import Recorder

JOB = {"name": "good", "created": 1.0, "workers": 1, "site": {}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a function that makes the folder of a run that is done."""
    root = tmp_path / "runs"
    monkeypatch.setenv("DDL_RUNS_DIR", str(root))

    def make(run_id):
        made = RunFolder(root / run_id)
        made.path.mkdir(parents=True)
        write_json(made.job, {**JOB, "id": run_id})
        made.append(made.launcher, {"event": "ended", "time": 2.0, "state": "done"})
        return made

    return make


GOOD = "20260101-000000-aaaa"
BAD = "20260101-000001-bbbb"


DAMAGES = {
    "empty": lambda run: run.job.write_text(""),
    "cut off": lambda run: run.job.write_text('{"id": "2026'),
    "binary": lambda run: run.job.write_bytes(b"\xff\x00\xfe"),
    "a list": lambda run: run.job.write_text("[1, 2]"),
    "without keys": lambda run: run.job.write_text("{}"),
    "a rank": lambda run: run.rank(0).write_text(""),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_run_is_listed_as_that_beside_the_others(folder, capsys, damage):
    folder(GOOD)
    damage(folder(BAD))
    assert main(["list"]) == 0
    good, bad = capsys.readouterr().out.splitlines()
    assert good.startswith(f"{GOOD}  ✓ good done")
    assert bad.startswith(f"{BAD}  ! {BAD} damaged: ") and f"/runs/{BAD}/" in bad
    assert [run.state for run in runs()] == ["done", "damaged"]
    assert main(["show", BAD]) == 1
    assert f"/runs/{BAD}/" in capsys.readouterr().out
    assert main(["stop", BAD]) == 0
    assert "is over already: damaged" in capsys.readouterr().out


def test_lines_that_are_damaged_are_left_out_and_counted(folder):
    run = folder(GOOD)
    run.append(run.events, {"event": "step", "time": 1.1, "step": 1, "loss": 2.0})
    with open(run.events, "ab") as file:
        file.write(b'{"event": "st{"event": "step"}\n\xff\xfe\n[]\n{"event": "step"}\n')
    run.append(run.events, {"event": "step", "time": 1.2, "step": 2, "loss": 1.0})
    progress = attach(GOOD).progress()
    assert (progress.step, progress.loss, progress.state) == (2, 1.0, "done")
    assert "4 lines" in progress.notes[0] and "events.jsonl" in progress.notes[0]


def test_records_are_read_and_damage_is_reported(folder):
    run = folder(GOOD)
    recorder = Recorder(run.path)
    recorder.event("start", steps=1, epochs=1.0)
    recorder.event("evaluation", step=1, epoch=1.0, samples=8, loss=1.0, test_accuracy=0.5)
    recorder.result({"test_accuracy": 0.5})
    found = attach(GOOD)
    assert found.result == {"id": GOOD, "name": "good", "test_accuracy": 0.5}
    assert found.history["test_accuracy"].tolist() == [0.5]
    run.result.write_text("{")
    with pytest.raises(DamagedFile, match="result.json is damaged"):
        found.result  # noqa: B018


def test_other_folders_are_no_runs_and_an_id_is_no_pattern(folder):
    made = folder(GOOD)
    for name in (".ipynb_checkpoints", "notes", "old"):
        (made.path.parent / name).mkdir()
    (made.path.parent / "file").write_text("")
    assert [run.id for run in runs()] == [GOOD]
    with pytest.raises(LookupError, match="no run"):
        attach("*")


COMMANDS = (["list"], ["show", "x"], ["stop", "x"], ["run", "hello.py"])


def test_a_runs_folder_without_permission_is_named(folder, tmp_path, capsys, monkeypatch):
    folder(GOOD)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")  # root's is closed to others
    closed = tmp_path / "runs"
    closed.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may do everything
    try:
        assert [main(command) for command in COMMANDS] == [2] * len(COMMANDS)
    finally:
        os.seteuid(user)
        closed.chmod(0o700)
    for error in capsys.readouterr().err.splitlines():
        assert "Permission denied" in error and "DDL_RUNS_DIR" in error and str(closed) in error


def test_errors_of_a_launch_are_one_line_in_a_notebook(tmp_path, monkeypatch):
    for script, workers, stall_s, error, says in (
        ("nope.py", 1, "6", "JobError", "no script 'nope.py'"),
        ("hello.py", 64, "6", "SiteError", "64"),
        ("hello.py", 1, "soon", "InputError", "DDL_STALL_S must be .*positive"),
    ):
        monkeypatch.setenv("DDL_STALL_S", stall_s)
        with pytest.raises(ValueError, match=says) as caught:
            launch(script, workers=workers)
        assert caught.value._render_traceback_() == [f"{error}: {caught.value}"]
    assert runs() == []


class Disk:
    """A disk on which writes fail after `room` more."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.room = folder, 0
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor, data):
        if self.room == 0:
            raise OSError(FULL[0], os.strerror(FULL[0]))
        self.room -= 1
        return self._write(descriptor, data)


@pytest.fixture
def full(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    return Disk(folder, monkeypatch)


def test_full_disk_is_reported(full):
    run, event = full.folder, {"event": "ended", "time": 1.0}
    with pytest.raises(StorageError, match="launcher.jsonl cannot be written: No space left on device. Free") as caught:
        run.append(run.launcher, event)
    assert "DDL_RUNS_DIR" in str(caught.value) and caught.value.errno == FULL[0]


def test_a_training_goes_on_without_its_records_and_says_so(full, capsys):
    run = full.folder
    recorder = Recorder(run.path)
    for step in range(3):
        recorder.event("step", step=step)
    assert capsys.readouterr().err.count("Training goes on") == 1
    full.room = 9
    recorder.event("step", step=3)
    note, step = map(json.loads, run.events.read_text().splitlines())
    assert note["message"] == "3 records could not be written meanwhile" and step["step"] == 3


@pytest.mark.parametrize("host", ["elsewhere", None])
def test_a_rank_that_does_not_run_here_is_not_killed(folder, host):
    """On another host its number may be any process's; here this process has that number, and is not of the run."""
    made = folder(GOOD)
    write_json(made.rank(0), {"rank": 0, "host": host or host_name(), "pid": os.getpid(), "started": 1.0})
    for rank in (0, 1):
        with pytest.raises(NotFound, match=f"rank {rank} of run {GOOD} is not running on this machine"):
            attach(GOOD).kill_rank(rank)
