"""What a template asks itself before a fork, and who it is for."""

import os
import socket

import pytest

from ddl.launcher import warm
from ddl.launcher.commands import RankCommand
from ddl.rank import proxy, template


@pytest.fixture
def process(tmp_path):
    """A process in /proc, with one thread and its three streams."""
    (tmp_path / "task" / "1").mkdir(parents=True)
    (tmp_path / "fd").mkdir()
    for number in range(3):
        (tmp_path / "fd" / str(number)).symlink_to("/dev/null")
    return tmp_path


def test_a_process_that_has_only_imported_is_fit(process, monkeypatch):
    monkeypatch.delitem(template.sys.modules, "tensorflow.python.eager.context", raising=False)
    assert template.unfit(process) == ""


def test_a_thread_would_not_live_on_in_a_fork(process):
    (process / "task" / "2").mkdir()
    assert template.unfit(process) == "2 threads run"


@pytest.mark.parametrize("device", ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/kfd"])
def test_a_process_that_has_opened_a_gpu_is_not_forked(process, device):
    (process / "fd" / "7").symlink_to(device)
    assert template.unfit(process) == f"a GPU's driver is in use ({device})"


def test_a_process_with_tensorflows_context_is_not_forked(process, monkeypatch):
    class Context:
        _context_handle = object()

    class Module:
        _context = Context

    monkeypatch.setitem(template.sys.modules, "tensorflow.python.eager.context", Module)
    assert template.unfit(process) == "TensorFlow is initialised"


def test_a_signal_that_comes_as_its_fork_ends_is_dropped():
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as listener, theirs:
        listener.bind(f"\0ddl-test-{os.getpid()}")
        listener.listen()
        served = template.Template(listener, {})
        ours.close()
        served._pass_on(ours)


def test_the_stamp_knows_every_imported_file_and_sees_a_change(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    import mine

    before = template.stamp()
    assert {mine.__file__, template.__file__, pytest.__file__} <= before.keys()
    (tmp_path / "mine.py").write_text("new = 1")
    assert [path for path, state in template.stamp().items() if state != before.get(path)] == [mine.__file__]


@pytest.mark.parametrize("name, value", [("XLA_FLAGS", "--x"), ("LD_PRELOAD", "/x.so"), ("KERAS_HOME", "/x")])
def test_what_an_import_reads_asks_for_another_template(name, value):
    plain = {"PATH": "/bin", "HOME": "/me"}
    assert warm.address(warm.identity(plain | {name: value})) != warm.address(warm.identity(plain))


@pytest.mark.parametrize("name", ["HOROVOD_RANK", "DDL_RUN_ID", "OMP_NUM_THREADS", "TF_CONFIG", "PYTHONUNBUFFERED"])
def test_what_is_read_later_does_not(name):
    assert warm.identity({name: "1"}) == warm.identity({})


def test_a_process_with_other_limits_asks_for_another_template(monkeypatch):
    before = warm.identity({})
    monkeypatch.setattr(os, "getpriority", lambda which, who: 5)
    assert warm.identity({}) != before


@pytest.mark.parametrize(
    "environment, said",
    [
        ({}, True),
        ({"DDL_WARM": "no"}, False),
        ({"SLURM_PROCID": "0"}, False),
        ({"OMPI_COMM_WORLD_RANK": "0"}, False),
        ({"SLURM_JOB_ID": "7"}, True),
    ],
)
def test_who_may_come_from_a_template(environment, said):
    assert warm.allowed(environment) == said


@pytest.mark.parametrize(
    "text, name",
    [
        ('os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"', "TF_ENABLE_ONEDNN_OPTS"),
        ("os.environ.setdefault('OMP_NUM_THREADS', '4')", "OMP_NUM_THREADS"),
        ('os.environ["TF_CONFIG"]; "HOROVOD_RANK"', ""),
        ("import tensorflow as tf  # TF_CPP_MIN_LOG_LEVEL", ""),
    ],
)
def test_a_script_that_may_set_what_imports_read_is_known_by_its_text(text, name):
    assert warm.named_at_import(text) == name


def test_the_script_is_found_in_a_workers_command():
    command = RankCommand(threads=2, start="cold", command=("/a b/train.py", "--threads", "9"))
    words = list(command.words[2:])
    assert proxy.script_of(words) == command.script == "/a b/train.py"
    assert proxy.script_of(["--threads", "1"]) == ""
