"""Runs that enter a container, through stand-ins that check the command line (see stand_in.py)."""

import json
import os
import sys
from pathlib import Path

import pytest

from ddl import launch
from ddl.job.site import Site
from helpers import printed, program

SHOW = """
    import json, os, sys
    print(json.dumps({"rank": int(os.environ["HOROVOD_RANK"]), "cwd": os.getcwd(),
                      "python": sys.executable, "variables": dict(os.environ)}))
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Put the stand-in on the path under a name; return where it writes down what it is asked."""
    folder = tmp_path / "programs"
    monkeypatch.setenv("PATH", str(folder), prepend=":")

    def install(name):
        stand_in = Path(__file__).with_name("stand_in.py").read_text()
        return program(folder / name, f"#!{sys.executable}\n{stand_in}").with_suffix(".jsonl")

    return install


def asked(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("program, image", [("singularity", "/images/ddl.sif"), ("docker", "ddl-course:gpu")])
def test_two_ranks_run_in_a_container(stand_in, script, monkeypatch, nothing_left, program, image):
    log = stand_in(program)
    monkeypatch.setenv("MY_API_TOKEN", "hush-4711")
    monkeypatch.setenv("MY_SETTING", "seven")
    monkeypatch.setenv("PYTHONSTARTUP", "/of/the/host")
    site = Site(container=program, image=image, cores_per_node=2, gpus_per_node=2, pass_environment=("MY_SETTING",))
    run = launch(script(SHOW), site=site, workers=2)
    assert run.state == "done", run.failure
    (call,) = asked(log)
    assert call["image"] == image and call["command"][:3] == ["python", "-m", "ddl.start.one_host"]
    if program == "singularity":
        assert call["options"]["--nv"] and call["options"]["--cleanenv"]
    else:
        assert call["options"]["--gpus"] == ["all"] and call["options"]["--ipc"] == ["host"]
        assert call["options"]["--user"] == [f"{os.getuid()}:{os.getgid()}"]
    for rank, shown in enumerate(printed(run)):
        variables = shown["variables"]
        assert shown["rank"] == rank and variables["MY_SETTING"] == "seven"
        assert variables["PYTHONNOUSERSITE"] == "1"
        assert "MY_API_TOKEN" not in variables and "PYTHONSTARTUP" not in variables
    assert "hush-4711" not in json.dumps(call)


def test_missing_container_program_is_named(script, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    site = Site(container="singularity", image="/images/ddl.sif", cores_per_node=2)
    run = launch(script("pass"), site=site, check=False)
    assert run.state == "failed" and "singularity" in run.failure.sentence
