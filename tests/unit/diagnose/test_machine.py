"""The report on this machine."""

import pytest

from ddl.diagnose.machine import doctor
from ddl.diagnose.report import Check, Report
from ddl.launcher import warm
from ddl.launcher.site import Site
from ddl.rank import hosts
from ddl.records import machine, stack


def check(name, site=None):
    return next(check for check in doctor(site).checks if check.name == name)


def test_report_names_what_is_missing_and_what_to_do():
    report = Report((Check("memory", "OK", "8 GiB"), Check("cores", "missing", "1", "get one")))
    assert not report.ok
    lines = repr(report).splitlines()
    assert lines[0] == "✓ OK        memory  8 GiB"
    assert lines[1] == "✗ missing   cores   1"
    assert lines[2].strip() == "→ get one"
    assert lines[3] == "Not ready. First see to: cores."


def test_optional_things_stop_nobody_and_code_is_shown_as_code():
    report = Report((Check("GPUs", "optional", "none"),))
    assert report.ok and "Ready" in repr(report)
    report = Report((Check("C++ compiler", "missing", "no `g++`", "install it: `apt-get install g++`"),))
    html = report._repr_html_()
    assert "no <code>g++</code>" in html and "<code>apt-get install g++</code>" in html and "`" not in html
    assert "`apt-get install g++`" in repr(report)


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
    assert names == [
        "site",
        "runs go",
        "processor cores",
        "memory",
        "GPUs",
        "Slurm",
        "warm ranks",
        "several hosts",
        "software",
        "Horovod build",
        "CIFAR-10",
        "generated images",
        "disk",
        "containers",
        "this process",
    ]
    assert all(check.advice for check in report.checks if check.state == "missing")
    assert "`" not in report._repr_html_()


TEMPLATE = {"pid": 7, "here": True, "ready": True, "memory_bytes": 210 << 20, "served": 3, "idle_s": 900.0}


@pytest.mark.parametrize(
    "found, environment, state, said",
    [
        (
            [TEMPLATE],
            {},
            "OK",
            "process 7 keeps TensorFlow imported: 210 MiB, 3 starts so far, ends 15 min after the last",
        ),
        ([TEMPLATE | {"here": False}], {}, "OK", "process 7 keeps TensorFlow imported, for another environment"),
        ([{"pid": 7, "here": True, "ready": False}], {}, "OK", "process 7 imports TensorFlow"),
        ([], {}, "optional", "TensorFlow is not kept imported"),
        ([], {"DDL_WARM": "no"}, "optional", "switched off here"),
    ],
)
def test_templates_are_shown(monkeypatch, found, environment, state, said):
    monkeypatch.delenv("DDL_WARM", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(warm, "running", lambda: found)
    row = check("warm ranks", Site())
    assert (row.state, row.detail[: len(said)]) == (state, said)


@pytest.mark.parametrize("here, state", [(Site(), "optional"), (hosts.site(), "missing")])
def test_hosts_that_cannot_be_made_are_missed_where_runs_need_them(monkeypatch, here, state):
    monkeypatch.setattr(hosts, "permitted", lambda: "the kernel said no")
    found = check("several hosts", here)
    assert found.state == state and "the kernel said no" in found.detail and found.advice


def test_a_control_groups_limit_counts(tmp_path, monkeypatch):
    (tmp_path / "memory.max").write_text(f"{2 * 2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**30}\n")
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    assert machine.available_bytes() / 2**30 == pytest.approx(1, abs=0.01)
    assert check("memory").state == "missing"


def test_a_folder_that_cannot_be_written_is_named(monkeypatch):
    monkeypatch.setenv("DDL_RUNS_DIR", "/proc/runs")
    found = check("disk")
    assert found.state == "missing" and "DDL_RUNS_DIR" in found.advice


def test_a_container_command_is_not_taken_for_one_that_works(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert check("containers").state == "optional"
    (tmp_path / "docker").write_text("")
    (tmp_path / "docker").chmod(0o755)
    assert check("containers").detail == ("on the path: docker; whether an image can be run was not tried")


def test_horovod_needs_the_sites_controller(monkeypatch):
    monkeypatch.setattr("ddl.rank.one_host.built_with", lambda: {"gloo": True})
    assert check("Horovod build").state == "OK"
    cluster = Site(scheduler="slurm", controller="mpi")
    assert "HOROVOD_WITH_MPI=1" in check("Horovod build", cluster).advice


def test_a_container_around_this_process_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "MARKS", {"podman": ((), (tmp_path / "mark",))})
    assert check("this process").detail.startswith("not in a known container, ")
    (tmp_path / "mark").touch()
    assert check("this process").detail.startswith("in a Podman container, ")
