"""Run folders that are damaged, or cannot be used: each is named, and none hides another."""

import errno
import os
import pickle
import shutil
import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from IPython.lib.pretty import pretty

from ddl import attach, runs
from ddl.cli import main
from ddl.errors import NotFound
from ddl.follow.run import Output, Run, RunFailed, RunInterrupted
from ddl.records.folder import RunFolder, StorageError
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


@pytest.mark.parametrize("line", ["[]\n", "garbage without an end"])
def test_line_that_is_no_event_is_counted(folder, capsys, line):
    folder(GOOD).events.write_text(line)
    assert main(["show"]) == 0 and "1 line of" in capsys.readouterr().out


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


@pytest.mark.parametrize("refusal", [OSError(errno.ENOSYS, "no such call"), ProcessLookupError(errno.ESRCH, "gone")])
def test_an_end_is_awaited_without_pidfds(folder, monkeypatch, refusal):
    monkeypatch.setattr("os.pidfd_open", Mock(side_effect=refusal))
    process = subprocess.Popen(["sleep", "0.05"])
    control = Run(folder(GOOD).path, process)._processes
    for _ in range(50):
        control.pause()
        if process.returncode is not None:
            break
    assert process.returncode == 0


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


def test_a_run_that_is_deleted_once_it_is_over_keeps_its_end(folder):
    paths = folder(GOOD)
    run = attach(GOOD)
    assert run.state == "done"
    paths.launcher.unlink()  # files go in any order, but the job first
    paths.job.unlink()
    assert (run.state, run.status) == ("done", 0)


@pytest.mark.parametrize("status, state", [(0, "done"), (1, "damaged")])
def test_a_run_that_is_deleted_before_its_end_is_seen_has_its_launchers_status(folder, status, state):
    paths = folder(GOOD)
    paths.launcher.unlink()
    launcher = Mock(pid=0)
    launcher.poll.return_value = None
    run = Run(paths.path, launcher)
    assert run.state == "queued"
    shutil.rmtree(paths.path)
    launcher.poll.return_value = launcher.returncode = status
    assert run.state == state and not paths.path.exists()


def test_a_folder_that_was_deleted_under_a_run_is_named(folder):
    paths = folder(GOOD)
    run = Run(paths.path)
    shutil.rmtree(paths.path)
    failure = run.failure
    assert run.state == "damaged" and f"{paths.path} was deleted" in failure.sentence and "disk" not in failure.advice


def test_an_error_has_the_whole_message_without_control_characters(folder):
    paths = folder(GOOD)
    message = "line one\nand \x1b[31mred"
    error = {"rank": 0, "type": "ValueError", "message": message, "status": 1, "time": 1.5, "host": "h", "log_bytes": 0}
    write_json(paths.error(0), error | {"traceback": f"Traceback …\n  raise\nValueError: {message}\n"})
    paths.launcher.unlink()
    for event in ({"event": "rank_exit", "rank": 0, "code": 1}, {"event": "ended", "state": "failed"}):
        paths.append(paths.launcher, event | {"time": 2.0})
    failed = RunFailed(Run(paths.path))
    assert str(failed).endswith("\nValueError: line one\nand \\x1b[31mred")


def test_runs_and_their_errors_survive_pickling_and_compare_by_folder(folder):
    folder(GOOD)
    run, other = attach(GOOD), Run(folder(BAD).path)
    assert pickle.loads(pickle.dumps(run)) == run == attach(GOOD) != other
    assert len({run, attach(GOOD), other}) == 2
    for error in (
        RunInterrupted(run, "was stopped"),
        StorageError(OSError(28, "full"), "/x"),
        NotFound("no such thing"),
    ):
        copy = pickle.loads(pickle.dumps(error))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_a_notebook_shows_the_lines_of_a_log():
    shown = pretty(Output("one\n  two\n"))
    assert shown == "one\n  two\n" and Output("one\n") == "one\n"


def test_a_list_of_runs_shows_ids(folder):
    folder(GOOD), folder(BAD)
    assert [line.split()[0] for line in repr(runs()).splitlines()] == [GOOD, BAD]


def test_a_relative_folder_of_runs_stays_where_it_was_first_used(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder(GOOD)
    monkeypatch.setenv("DDL_RUNS_DIR", "runs")
    assert attach(GOOD).state == "done"
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    assert attach(GOOD).state == "done"
