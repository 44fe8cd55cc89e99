"""When the fork server can fork, and which variables it must know; tests/launch runs real servers."""

import os

import pytest

from ddl.launcher import fork_client
from ddl.launcher.job import Job
from ddl.launcher.launch import _forks
from ddl.launcher.site import Site
from ddl.rank import fork_server


@pytest.fixture
def process(tmp_path):
    """Make a process in /proc, with one thread and its three streams."""
    (tmp_path / "task" / "1").mkdir(parents=True)
    (tmp_path / "fd").mkdir()
    for number in range(3):
        (tmp_path / "fd" / str(number)).symlink_to("/dev/null")
    return tmp_path


def test_process_with_threads_or_a_gpu_is_unfit(process):
    assert fork_server.unfit(process) == ""
    (process / "task" / "2").mkdir()
    assert "2 threads" in fork_server.unfit(process)
    (process / "task" / "2").rmdir()
    for device in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/kfd"):
        (process / "fd" / "7").symlink_to(device)
        assert device in fork_server.unfit(process)
        (process / "fd" / "7").unlink()


@pytest.mark.parametrize(
    "job, site, detach, forks",
    [
        ({}, {}, False, True),
        ({"warm": False}, {}, False, False),
        ({"cluster": "torchrun"}, {}, False, False),
        ({"debug": 0}, {}, False, False),
        ({"env": (("XLA_FLAGS", "x"),)}, {}, False, False),
        ({"env": (("OUT", "x"),)}, {}, False, True),
        ({}, {}, True, False),
        ({}, {"modules": ("cuda/12",)}, False, False),
        ({}, {"python": "/env/python"}, False, False),
        ({}, {"container": "docker", "image": "ddl"}, False, False),
        ({}, {"scheduler": "slurm"}, False, False),
    ],
)
def test_ranks_are_forked_only_if_they_would_start_the_same(job, site, detach, forks, monkeypatch):
    monkeypatch.delenv("DDL_WARM", raising=False)
    assert _forks(Job("x.py", **job), Site(cores_per_node=4, **site), detach) is forks


def test_environment_can_forbid_forks():
    assert fork_client.allowed({}) and fork_client.allowed({"SLURM_JOB_ID": "7"})
    for name, value in (("DDL_WARM", "no"), ("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "0")):
        assert not fork_client.allowed({name: value}), name


def test_server_gets_no_variables_of_a_run(monkeypatch):
    for name in ("DDL_RUN_ID", "DDL_RUN_DIR", "DDL_LIFELINE"):
        monkeypatch.setenv(name, "x")
    assert not {"DDL_RUN_ID", "DDL_RUN_DIR", "DDL_LIFELINE"} & fork_client._without_run(os.environ).keys()
