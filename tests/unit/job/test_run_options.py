"""Options of a run's processes, from job.json and from a pasted line."""

import ast
import dataclasses
import inspect
import json

import pytest

from ddl.cli import main
from ddl.job.job import LAUNCHER, OPTIONS, RANKS, SUPERVISOR
from ddl.job.plan import plan
from ddl.job.run_options import HOST_OPTIONS, RANK_OPTIONS, TASK_OPTIONS, RunOptions
from ddl.job.site import Site
from ddl.start import launch as launching
from helpers import ROOT

SCRIPT = ("/c/x.py", "a", "--threads", "9", "-np", "--timeout-s", "")


@pytest.mark.parametrize("names", [RANK_OPTIONS, TASK_OPTIONS, HOST_OPTIONS])
@pytest.mark.parametrize(
    "options",
    [
        RunOptions("/c/x.py", SCRIPT[1:], threads=2),
        RunOptions("-m pkg.train", SCRIPT[1:], threads=1, cluster="parameter_server", parameter_servers=3),
        RunOptions("/c/x.py", threads=3, controller="mpi", network_interface="ib0", nodes=2, rate_mbit=100, workers=4),
    ],
)
def test_pasted_line_is_read_as_it_was_written(names, options):
    given = {name: getattr(options, name) for name in (*names, "script", "args")}
    assert RunOptions.parse(options.words(names)) == RunOptions(**given)


@pytest.mark.parametrize(
    "line, message",
    [
        ("--threads two x.py", "invalid option --threads two"),
        ("--thread 2 x.py", "invalid option --thread 2"),
        ("--threads 2", "script"),
    ],
)
def test_invalid_pasted_line_is_refused(line, message, capsys):
    with pytest.raises(ValueError, match=message):
        RunOptions.parse(line.split())
    with pytest.raises(SystemExit, match="2"):
        RunOptions.of_process(line.split())
    assert capsys.readouterr().err


# A non-default value for each option, with related options.
VALUES = {
    "name": "mine",
    "workers": 3,
    "nodes": 1,
    "threads": 2,
    "timeout_s": 7.5,
    "oversubscribe": True,
    "cluster": "multi_worker",
    "parameter_servers": 2,
    "max_restarts": 4,
    "elastic": True,
    "debug": 1,
    "warm": False,
}
NEEDS = {"parameter_servers": {"cluster": "parameter_server"}}


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """Return the jobs that are started, instead of starting them."""
    jobs = []

    class Started:
        id, status = "r1", 0

        def wait(self):
            return self

    monkeypatch.setattr(launching, "start", lambda job, *rest: jobs.append(job) or Started())
    monkeypatch.setattr(launching, "_terminal", lambda job: "/dev/pts/0")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").touch()
    return jobs


@pytest.mark.parametrize("name", OPTIONS)
def test_option_reaches_the_job_from_keyword_command_line_and_rerun(name, asked, tmp_path, monkeypatch):
    expected = {name: VALUES[name], **NEEDS.get(name, {})}
    site = Site(cores_per_node=4)
    launching.launch("x.py", **expected, site=site, wait=False)
    (job,) = asked
    assert {name: getattr(job, name) for name in expected} == expected and OPTIONS[name].default != expected[name]

    flags = []
    for each, value in expected.items():
        flags += [f"--{each.replace('_', '-')}", *([] if value is True else [str(value)])]
    if OPTIONS[name].metadata["terminal"]:
        monkeypatch.setattr(launching.Site, "here", lambda file=None: site)
        assert main(["run", *flags, "x.py"]) == 0
        assert dataclasses.replace(asked[-1], warm=job.warm) == job

    planned = plan(job, site, run_id="r1", folder=tmp_path / "runs" / "r1", terminal="/dev/pts/0")
    (text,) = [text for path, text in planned.files if path.name == "job.json"]
    assert {name: json.loads(text)[name] for name in expected} == expected
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "runs"))
    (tmp_path / "runs" / "r1").mkdir(parents=True)
    (tmp_path / "runs" / "r1" / "job.json").write_text(text)
    monkeypatch.setattr(launching.Site, "here", lambda file=None: site)
    assert main(["rerun", "r1"]) == 0
    again = dataclasses.replace(asked[-1], warm=job.warm, oversubscribe=job.oversubscribe)
    assert again == dataclasses.replace(job, threads=again.threads, nodes=again.nodes)


def test_launch_has_every_option_as_a_plain_parameter():
    parameters = inspect.signature(launching.launch).parameters
    assert not hasattr(launching.launch, "__signature__")
    for name, each in OPTIONS.items():
        default = None if name in ("name", "cluster") else each.default  # the script says these
        assert (parameters[name].default, parameters[name].kind) == (default, inspect.Parameter.KEYWORD_ONLY), name
        assert f"    {name}\n" in launching.launch.__doc__ and each.metadata["help"], name
    ours = {"script", "args", "env", "site", "dry_run", "wait", "detach", "check", "arguments"}
    assert set(parameters) == ours | set(OPTIONS)


def read_by(part):
    """Return the names of attributes that are read by the processes of a "run", or by its "launcher"."""
    launching = {"launch.py", "allocation.py", "fork_client.py"}
    files = {path for room in ("job", "follow", "start") for path in (ROOT / "source_code" / "ddl" / room).glob("*.py")}
    of_run = {path for path in files if path.parent.name == "start" and path.name not in launching}
    chosen = of_run if part == "run" else files - of_run
    trees = [ast.parse(path.read_text()) for path in chosen if path.name not in ("job.py", "run_options.py")]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("name", OPTIONS)
def test_option_is_read_where_it_is_said_to_reach(name):
    reached = "launcher" if OPTIONS[name].metadata["reaches"] == LAUNCHER else "run"
    assert OPTIONS[name].metadata["reaches"] in (RANKS, SUPERVISOR, LAUNCHER)
    wanted = "ranks" if name == "workers" else name  # the number of ranks follows from the workers
    assert wanted in read_by(reached), f"no process of the {reached} reads {name}"


def test_option_that_nobody_reads_is_found():
    assert "in_no_job" not in read_by("run") | read_by("launcher") and "threads" in read_by("run")


def test_options_that_ranks_read_are_part_of_printed_lines():
    tree = ast.parse((ROOT / "source_code/ddl/start/worker.py").read_text())
    read = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "options"
    }
    lost = read & set(OPTIONS) - {"debug"} - set(RANK_OPTIONS)  # `debug` needs the launcher's terminal
    assert "threads" in read and not lost, f"say that {lost} reach RANKS"
