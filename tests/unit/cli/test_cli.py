"""The command line as a shell's user meets it; nothing is launched."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from unittest.mock import Mock

import pytest

from course.plugin import REMOVED
from ddl.cli import _parser, main
from ddl.records.jsonfiles import append_json_line, write_json
from ddl.records.paths import runs_dir


@pytest.fixture
def recorded():
    """Return a function that writes the folder of a run that is over."""

    def write(run, state="done", age_days=0.0, **job):
        folder, created = runs_dir() / run, time.time() - age_days * 86400
        folder.mkdir()
        described = {
            "id": run,
            "name": "configuration",
            "created": created,
            "workers": 1,
            "script": "/x/a.py",
            "args": ["-v"],
        }
        write_json(folder / "job.json", described | job)
        append_json_line(folder / "launcher.jsonl", {"event": "ended", "time": created + 5, "state": state})
        return folder

    return write


@pytest.fixture
def launched(monkeypatch):
    """Return what `launch` is asked for, instead of a launch."""
    asked = {}
    monkeypatch.setattr("ddl.start.launch.launch", lambda script, **options: asked.update(script=script, **options))
    return asked


def test_closed_pipe_causes_no_error_message():
    reader, writer = os.pipe()
    os.close(reader)  # as `head` does, but sure to be first
    command = [sys.executable, "-m", "ddl.cli", "topology", "dgx-a100"]
    ended = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_full_output_and_an_empty_list_are_named(recorded, capsys):
    assert main(["list"]) == 0 and "no runs yet" in capsys.readouterr().err
    recorded("r1")
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "ddl.cli", "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert ended.returncode == 2 and ended.stderr.startswith("ddl: the output cannot be written: No space left")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "usage", "refusal"),
    [
        (["shwo", "x"], "ddl", "did you mean 'show'?"),
        (["run", "--wokers", "2", "x.py"], "ddl run", "--wokers: did you mean '--workers'?"),
        (["run"], "ddl run", "required: SCRIPT"),
        (["challenge", "score", "--run", "3", "x.py"], "ddl challenge score", "--run: did you mean '--runs'?"),
    ],
)
def test_wrong_word_is_refused_with_a_suggestion(capsys, words, usage, refusal):
    with pytest.raises(SystemExit, match="2"):
        main(words)
    shown = capsys.readouterr().err
    assert shown.startswith(f"usage: {usage} ") and shown.rstrip().endswith(refusal)


GONE = {
    "predict": ["predict", "--topology", "dgx-1"],
    "race_allreduce.py": ["run", "-n", "4", "--oversubscribe", "race_allreduce.py"],
    "landscape.py": ["run", "-n", "1", "landscape.py"],
    "few_messages.py": ["run", "-n", "1", "few_messages.py"],
    "fashion_mnist": ["data", "fetch", "fashion_mnist"],
    ".xml": ["topology", "server.xml"],
}


def test_what_is_gone_is_refused_in_one_sentence(capsys):
    assert GONE.keys() == REMOVED.keys()
    for name, words in GONE.items():
        assert main(words) == 2
        assert capsys.readouterr().err == f"ddl: {REMOVED[name]}\n"


def test_a_start_waits_for_no_plugin(script, monkeypatch):
    monkeypatch.setattr("ddl.plugins.each", Mock(side_effect=AssertionError))
    assert main(["run", "--dry-run", "-n", "1", str(script(""))]) == 0


def test_every_command_is_grouped_and_its_example_is_accepted():
    parser = _parser()
    commands = next(action.choices for action in parser._actions if action.choices)
    shown = parser.format_help()
    for name, command in commands.items():
        assert f"\n  {name} " in shown
        _, *words = command.epilog.removeprefix("example: ").split()
        assert words[0] == name and parser.parse_known_args(words)


def test_show_and_logs_take_the_newest_run(recorded, capsys):
    assert main(["show"]) == 2
    assert "no runs yet" in capsys.readouterr().err
    for number in range(2):
        (recorded(f"20260101-00000{number}-aaaa", name=f"run {number}") / "rank-0.log").write_text(f"output {number}\n")
    assert main(["show"]) == 0 and main(["logs"]) == 0
    shown = capsys.readouterr().out
    assert "run 1 done" in shown and "output 1" in shown and "run 0" not in shown


def test_arguments_after_the_script_belong_to_it(launched):
    assert main(["run", "-n", "1", "x.py", "--t", "--", "--workers", "3", "--"]) == 0
    assert (launched["script"], launched["args"]) == ("x.py", ["--t", "--", "--workers", "3", "--"])
    main(["run", "--env", "A=b=c", "--env", "HOME", "--", "x.py"])
    assert (launched["script"], launched["args"], launched["workers"]) == ("x.py", [], 2)
    assert launched["env"] == {"A": "b=c", "HOME": os.environ["HOME"]}


def test_copied_folders_and_names_with_control_characters_are_listed(recorded, capsys):
    recorded("20260101-000002-cccc", name="\x1b[31mred")
    copy = recorded("20260101-000004-aaaa", id="20260101-000002-cccc")
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and "✓ \\x1b[31mred done" in shown and f"{copy.name}  ✓ configuration done" in shown


def test_runs_are_filtered_and_printed_as_json(recorded, capsys):
    for number, state in enumerate(("done", "stopped", "done")):
        recorded(f"20260101-00000{number}-aaaa", state)
    assert main(["list", "--json", "--state", "done", "--last", "1"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["state"], found["status"]) == ("20260101-000002-aaaa", "done", 0)
    assert main(["show", "20260101-000001", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["script"], found["result"]) == ("stopped", "/x/a.py", None)
    assert main(["list", "--state", "stoped"]) == 2
    assert "did you mean 'stopped'?" in capsys.readouterr().err


def test_log_of_a_rank_is_printed(recorded, capsys):
    (recorded("r1-") / "rank-1.log").write_text("one\ntwo")
    for follow in ([], ["--follow"], ["-f"]):
        assert main(["logs", "r1-", "--rank", "1", *follow]) == 0
        assert capsys.readouterr().out.rstrip("\n") == "one\ntwo"
    (recorded("r2-") / "rank-1.log").touch()
    assert main(["logs", "r2-", "--rank", "1"]) == 0
    assert capsys.readouterr() == ("", "rank 1 of r2- printed nothing\n")
    assert main(["logs", "r1-", "--rank", "7", "--follow"]) == 2
    assert "rank-1.log" in capsys.readouterr().err


def test_old_runs_are_deleted_by_name_or_age(recorded, capsys):
    for age_days in (0, 1, 8, 9):
        recorded(f"20260101-00000{age_days}-aaaa", age_days=age_days)
    assert main(["rm", "--older-than", "7"]) == 0 and main(["rm", "20260101-000001"]) == 0
    assert [folder.name for folder in runs_dir().iterdir()] == ["20260101-000000-aaaa"]
    assert capsys.readouterr().out.count("deleted\n") == 4
    assert main(["rm"]) == 2
    (runs_dir() / "link").symlink_to(recorded("20260101-000001-bbbb"))
    assert main(["rm", "link"]) == 0
    assert {folder.name[-4:] for folder in runs_dir().iterdir()} == {"aaaa", "bbbb"}


def test_a_run_that_cannot_be_deleted_does_not_keep_the_others(recorded, capsys, monkeypatch):
    first, *_ = (recorded(f"20260101-00000{second}-aaaa", age_days=8) for second in range(3))

    def rmtree(folder, really=shutil.rmtree):
        if folder == first:
            raise PermissionError(errno.EACCES, "Permission denied", str(folder / "job.json"))
        really(folder)

    monkeypatch.setattr("ddl.cli.runs.shutil.rmtree", rmtree)
    assert main(["rm", "--older-than", "7"]) == 2
    assert [*runs_dir().iterdir()] == [first]
    printed = capsys.readouterr()
    assert "2 runs deleted" in printed.out and f"{first / 'job.json'}: Permission denied" in printed.err


@pytest.mark.parametrize("words", ["rm", "stop", "rerun", "show", "logs", "rm --older-than=-1", "rm --older-than=nan"])
def test_a_missing_id_or_age_selects_no_run(recorded, launched, capsys, words):
    recorded("20260101-000000-aaaa")
    assert main(words.split() + [""] * ("-" not in words)) == 2
    assert "''" in capsys.readouterr().err or "-" in words
    assert len(list(runs_dir().iterdir())) == 1 and not launched


@pytest.mark.parametrize(("detached", "became"), [(True, "r1 continues"), (False, "r1 was stopped")])
def test_interrupt_while_following_says_what_became_of_the_run(recorded, capsys, monkeypatch, detached, became):
    recorded("r1", detached=detached)

    def interrupted(self, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr("ddl.display.view.PlainView.update", interrupted)
    monkeypatch.setattr("ddl.display.view.PlainView.close", lambda view, progress: None)
    monkeypatch.setattr("ddl.follow.progress.Progress.over", False)
    monkeypatch.setattr("ddl.follow.run.Run.stop", lambda run: None)
    assert main(["show"]) == 130
    assert became in capsys.readouterr().err


def test_rerun_asks_for_unrecorded_variables(recorded, launched, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recorded("r1", cwd=str(tmp_path), workers=3, threads=2, parameter_servers=0, env=["TOKEN", "HOME"])
    assert main(["rerun", "r1"]) == 2 and not launched
    assert main(["rerun", "r1", "--env", "TOKEN=hush"]) == 0
    assert launched["env"] == {"TOKEN": "hush", "HOME": os.environ["HOME"]}
    assert (launched["script"], launched["args"], launched["workers"]) == ("/x/a.py", ["-v"], 3)
    assert (launched["name"], launched["threads"]) == ("configuration", 2)
