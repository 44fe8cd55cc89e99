"""When the fork server can fork, and which variables it must know; tests/launch runs real servers."""

import pytest

from ddl.job.job import Job
from ddl.job.site import Site
from ddl.start import fork_server
from ddl.start.launch import _forks


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
        ({"warm": True}, {}, False, True),
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


def test_environment_can_forbid_forks(monkeypatch):
    monkeypatch.setenv("DDL_WARM", "no")
    assert not _forks(Job("x.py"), Site(cores_per_node=4), False)
