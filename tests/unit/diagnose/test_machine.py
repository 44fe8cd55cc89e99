"""The report on this machine."""

import socket

import pytest

from ddl.diagnose.machine import doctor
from ddl.diagnose.report import Check, Report
from ddl.job.site import Site
from ddl.records import machine


def check(name, site=None):
    return next(check for check in doctor(site).checks if check.name == name)


@pytest.fixture(autouse=True)
def built(request, monkeypatch):
    """Loading Horovod takes seconds, so only a slow test asks it what it was built with."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr("ddl.diagnose.machine.horovod_build", lambda: (["gloo"], ""))


@pytest.mark.slow("source_code/ddl/diagnose/*")
def test_horovod_here_can_be_loaded():
    assert check("Horovod build").state == "OK" and "gloo" in check("Horovod build").detail


def test_report_lists_missing_requirements():
    report = Report((Check("memory", "OK", "8 GiB"), Check("compiler", "missing", "no `g++`", "`apt install g++`")))
    assert not report.ok
    *_, advice, conclusion = repr(report).splitlines()
    assert "`apt install g++`" in advice and "compiler" in conclusion
    assert "<td><code>apt install g++</code></td>" in report._repr_html_()
    report = Report((Check("GPUs", "optional", "none"),))
    assert report.ok and "Ready" in repr(report)


def test_a_package_that_pythonpath_hides_is_named(monkeypatch, tmp_path):
    (tmp_path / "numpy").mkdir()
    monkeypatch.setenv("PYTHONPATH", f"/nonexistent:{tmp_path}")
    assert not doctor().ok and str(tmp_path) in check("PYTHONPATH").advice and "numpy" in check("PYTHONPATH").detail
    monkeypatch.setattr("ddl.diagnose.machine._machine", lambda site: ())
    (tmp_path / "numpy").rename(tmp_path / "mine")
    assert "PYTHONPATH" not in [each.name for each in doctor().checks]


def test_a_machine_where_ranks_cannot_meet_is_not_ready(monkeypatch):
    def refuse(self, address):
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(socket.socket, "bind", refuse, raising=False)
    found = check("127.0.0.1")
    assert found.state == "missing" and "Cannot assign" in found.detail and "`ip " in found.advice


V2 = {
    "cpu.max": "100000 100000",
    "memory.max": 2 << 30,
    "memory.current": 3 << 29,
    "memory.stat": "inactive_file 536870912",
}


@pytest.mark.parametrize(
    "group, files",
    [
        ("0::/", {"": V2}),
        ("0::/slice/step", {"slice": V2, "slice/step": {"cpu.max": "max 100000", "memory.max": "max"}}),
        ("0::/host/path", {"": V2}),  # a container's own view of its group
    ],
)
def test_limits_of_control_groups_count_at_every_level(tmp_path, monkeypatch, group, files):
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(machine, "OWN_CGROUP", tmp_path / "own")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.delenv("SLURM_CPUS_ON_NODE", raising=False)
    assert machine.usable_cores() == 2 and machine.available_bytes() > 1 << 30
    (tmp_path / "own").write_text(group)
    for folder, values in files.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name, value in values.items():
            (tmp_path / folder / name).write_text(f"{value}\n")
    assert machine.usable_cores() == 1
    assert machine.available_bytes() == 1 << 30  # cached files give way


def test_horovod_needs_the_sites_controller(monkeypatch):
    assert check("Horovod build").state == "OK"
    cluster = Site(scheduler="slurm", controller="mpi")
    assert "HOROVOD_WITH_MPI=1" in check("Horovod build", cluster).advice
    monkeypatch.setattr("ddl.diagnose.machine.horovod_build", lambda: ([], "no such file"))
    assert "no such file" in check("Horovod build").detail


@pytest.fixture
def gpus(monkeypatch):
    """Return a function that makes this a machine with GPUs: names, compute capability, what nvidia-smi says."""

    def set(names, capability=(9, 0), problem="", processors=False, nccl=False):
        monkeypatch.setattr("ddl.job.site.gpu_names", lambda: names)
        monkeypatch.setattr("ddl.job.site.gpu_problem", lambda: problem)
        monkeypatch.setattr(machine, "gpu_capabilities", lambda: (capability,) * len(names))
        monkeypatch.setattr("ddl.records.stack.for_processors", lambda: processors)
        monkeypatch.setattr("ddl.records.stack.name", lambda: "default")
        monkeypatch.setattr("ddl.start.devices.horovod_has_nccl", lambda: nccl)
        return check("GPUs", Site(cores_per_node=4, gpus_per_node=len(names)))

    return set


def test_report_says_what_workers_do_with_gpus(gpus):
    assert gpus(()).state == "optional"
    assert "share" in gpus(("H200",)).detail and "cores" in gpus(("H200",), nccl=True).detail
    assert "2 × H200" in gpus(("H200",) * 2).detail and "up to 2" in gpus(("H200",) * 2).detail


def test_report_quotes_a_broken_gpu_and_refuses_one_that_is_too_new(gpus):
    lost = gpus(("A100",), problem="GPU is lost. Reboot the system to recover this GPU")
    assert lost.state == "missing" and "A100" in lost.detail and "is lost" in lost.detail
    assert gpus((), problem="Driver/library version mismatch").state == "missing"
    new = gpus(("B200",), capability=(10, 0))
    assert new.state == "missing" and "DDL_ACCELERATOR=cpu" in new.advice
    old = gpus(("H200",), processors=True)
    assert old.state == "optional" and "DDL_ACCELERATOR=gpu" in old.advice


def test_gpus_without_nccl_are_explained():
    assert "host memory" in check("Horovod build", Site(cores_per_node=4, gpus_per_node=2)).advice
    assert not check("Horovod build", Site(cores_per_node=4, gpus_per_node=1)).advice
