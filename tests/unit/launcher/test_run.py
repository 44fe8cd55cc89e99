"""Run folders that are damaged, or cannot be used: each is named, and none hides another."""

import os
from pathlib import Path

import pytest

from ddl import attach, runs
from ddl.cli import main
from ddl.errors import NotFound
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import write_json
from ddl.records.machine import host_name, versions

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


def replace(path, make):
    path.unlink(missing_ok=True)
    make(path)


DAMAGES = {
    "empty": lambda run: run.job.write_text(""),
    "cut off": lambda run: run.job.write_text('{"id": "2026'),
    "binary": lambda run: run.job.write_bytes(b"\xff\x00\xfe"),
    "a list": lambda run: run.job.write_text("[1, 2]"),
    "without keys": lambda run: run.job.write_text("{}"),
    "a rank": lambda run: run.rank(0).write_text(""),
    "a rank without keys": lambda run: run.rank(0).write_text("{}"),
    "a directory": lambda run: replace(run.launcher, Path.mkdir),
    "a pipe": lambda run: replace(run.launcher, os.mkfifo),
    "a pipe as events": lambda run: replace(run.events, os.mkfifo),
    "a time as text": lambda run: write_json(run.job, {**JOB, "id": BAD, "created": "soon"}),
    "a name as number": lambda run: write_json(run.job, {**JOB, "id": BAD, "name": 7}),
    "half a worker": lambda run: write_json(run.job, {**JOB, "id": BAD, "workers": 2.5}),
    "a billion workers": lambda run: write_json(run.job, {**JOB, "id": BAD, "workers": 10**9}),
    "arguments as number": lambda run: write_json(run.job, {**JOB, "id": BAD, "args": 5}),
    "a rank's start as text": lambda run: write_json(run.rank(0), {"rank": 0, "host": "h", "pid": 1, "started": "now"}),
    "a pipe as job": lambda run: replace(run.job, os.mkfifo),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_run_is_listed_as_damaged(folder, capsys, damage):
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
    assert main(["list", "--json"]) == 0 and main(["rm", BAD]) == 0
    assert [run.id for run in runs()] == [GOOD]


def test_pipe_as_a_log_does_not_block(folder, capsys):
    os.mkfifo(folder(GOOD).log(0))
    assert main(["logs"]) == 2 and "rank-0.log" in capsys.readouterr().err
    assert main(["show"]) == 0


def test_folder_of_another_user_is_listed_and_hides_no_run(folder, capsys, monkeypatch):
    folder(GOOD)
    bad, exists = folder(BAD), Path.exists

    def closed(path):
        if path == bad.job:
            raise PermissionError
        return exists(path)

    monkeypatch.setattr(Path, "exists", closed)
    replace(bad.launcher, os.mkfifo)
    assert main(["list"]) == 0
    assert "done" in (shown := capsys.readouterr().out) and "damaged" in shown


COMMANDS = (["list"], ["show", "x"], ["stop", "x"], ["run", "hello.py"])


def test_a_runs_folder_without_permission_is_named(folder, tmp_path, capsys, monkeypatch):
    folder(GOOD)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nonexistent")  # root's is closed to others
    versions()  # imports what nobody else may read
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


@pytest.mark.parametrize("host", ["elsewhere", None])
def test_rank_on_another_host_is_not_killed(folder, host):
    """On another host its number may be any process's; here this process has that number, and is not of the run."""
    made = folder(GOOD)
    write_json(made.rank(0), {"rank": 0, "host": host or host_name(), "pid": os.getpid(), "started": 1.0})
    for rank in (0, 1):
        with pytest.raises(NotFound, match=f"rank {rank} of run {GOOD}"):
            attach(GOOD).kill_rank(rank)


def test_a_script_may_record_any_value(folder, capsys):
    run = folder(GOOD)
    for event in (
        {"event": "start", "steps": "many", "epochs": None, "data": "mine"},
        {"event": "step", "step": "first", "loss": [1, 2], "samples": {}},
        {"event": "evaluation", "step": 3, "test_accuracy": "good", "note": "kept"},
    ):
        run.append(run.events, {**event, "time": 1.5})
    assert main(["show", GOOD]) == 0 and main(["show", "--json", GOOD]) == 0
    assert attach(GOOD).progress().step == 3 and attach(GOOD).history["test_accuracy"].tolist() == ["good"]


def test_a_launchers_record_of_a_wrong_type_is_left_out(folder):
    run = folder(GOOD)
    run.append(run.launcher, {"event": "restarted", "time": "soon", "step": "x"})
    assert [run.state for run in runs()] == ["done"]
