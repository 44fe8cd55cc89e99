"""The report on this machine."""

import pytest

from ddl import hosts
from ddl.diagnose.machine import doctor
from ddl.diagnose.report import Check, Report
from ddl.launcher.site import Site
from ddl.records import machine, stack


def check(name, site=None):
    return next(check for check in doctor(site).checks if check.name == name)


def test_report_names_what_is_missing_and_what_to_do_and_optional_things_stop_nobody():
    report = Report((Check("memory", "OK", "8 GiB"), Check("compiler", "missing", "no `g++`", "`apt install g++`")))
    assert not report.ok
    assert repr(report).splitlines() == [
        "✓ OK        memory    8 GiB",
        "✗ missing   compiler  no `g++`",
        f"{'':20}  → `apt install g++`",
        "Not ready. First see to: compiler.",
    ]
    html = report._repr_html_()
    assert "no <code>g++</code>" in html and "<code>apt install g++</code>" in html and "`" not in html
    report = Report((Check("GPUs", "optional", "none"),))
    assert report.ok and "Ready" in repr(report)


def test_the_software_names_the_stack_and_refuses_keras_3(monkeypatch):
    found = check("software")
    assert found.state == "OK" and found.detail.endswith(f": the {stack.name()} stack")
    monkeypatch.setattr(stack, "wrong_keras", lambda: "this Keras will not do.")
    found = check("software")
    assert (found.state, found.advice) == ("missing", "this Keras will not do.")
    monkeypatch.setattr(machine, "versions", lambda: {"tensorflow": "2", "horovod": "0.28.1"})
    for name, other in (("next", "tf_keras"), ("default", "tensorflow_addons")):
        monkeypatch.setattr(stack, "name", lambda name=name: name)
        found = check("software")
        assert found.state == "missing" and found.advice == f"`make setup` installs {other}"


def test_this_machine_is_looked_at():
    report = doctor()
    names = [check.name for check in report.checks]
    assert ", ".join(names) == (
        "site, runs go, processor cores, memory, GPUs, Slurm, several hosts, software, Horovod build, "
        "CIFAR-10, generated images, disk, containers, this process"
    )
    assert all(check.advice for check in report.checks if check.state == "missing")
    assert "`" not in report._repr_html_()


@pytest.mark.parametrize("here, state", [(Site(), "optional"), (hosts.site(), "missing")])
def test_hosts_that_cannot_be_made_are_missed_where_runs_need_them(monkeypatch, here, state):
    monkeypatch.setattr(hosts, "permitted", lambda: "the kernel said no")
    found = check("several hosts", here)
    assert found.state == state and "the kernel said no" in found.detail and found.advice


def test_a_control_groups_limit_counts_without_cached_files(tmp_path, monkeypatch):
    for name, mib in {"memory.max": 2048, "memory.current": 1536}.items():
        (tmp_path / name).write_text(f"{mib << 20}\n")
    (tmp_path / "memory.stat").write_text(f"anon 300000\ninactive_file {512 << 20}\n")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.available_bytes() == 1 << 30
    assert check("memory").state == "missing"
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_bytes() > 1 << 30


def test_horovod_needs_the_sites_controller(monkeypatch):
    monkeypatch.setattr("ddl.rank.one_host.built_with", lambda: {"gloo": True})
    assert check("Horovod build").state == "OK"
    cluster = Site(scheduler="slurm", controller="mpi")
    assert "HOROVOD_WITH_MPI=1" in check("Horovod build", cluster).advice
