"""What a template asks itself before a fork, and who it is for."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from ddl.launcher import processes, warm
from ddl.rank import template
from helpers import output


@pytest.fixture
def process(tmp_path):
    """A process in /proc, with one thread and its three streams."""
    (tmp_path / "task" / "1").mkdir(parents=True)
    (tmp_path / "fd").mkdir()
    for number in range(3):
        (tmp_path / "fd" / str(number)).symlink_to("/dev/null")
    return tmp_path


def test_a_process_is_forked_only_if_it_has_initialised_nothing(process, monkeypatch):
    """A thread would not live on in a fork, nor would a GPU's driver, or TensorFlow's context."""
    context = "tensorflow.python.eager.context"
    monkeypatch.delitem(sys.modules, context, raising=False)
    assert template.unfit(process) == ""
    (process / "task" / "2").mkdir()
    assert template.unfit(process) == "2 threads are running"
    (process / "task" / "2").rmdir()
    for device in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-uvm", "/dev/kfd"):
        (process / "fd" / "7").symlink_to(device)
        assert template.unfit(process) == f"a GPU's driver is in use ({device})"
        (process / "fd" / "7").unlink()
    monkeypatch.setitem(sys.modules, context, SimpleNamespace(_context=SimpleNamespace(_context_handle=object())))
    assert template.unfit(process) == "TensorFlow is initialised"


def test_the_stamp_sees_a_changed_file_and_a_new_package_and_not_bytecode(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "mine.py").write_text("")
    monkeypatch.syspath_prepend(folder)
    import mine

    before = template.stamp()
    assert {mine.__file__, template.__file__, pytest.__file__, str(folder)} <= before.keys()
    (folder / "__pycache__").mkdir(exist_ok=True)
    assert template.stamp() == before
    (folder / "mine.py").write_text("new = 1")
    (folder / "new-1.0.dist-info").mkdir()
    changed = {path for path, state in template.stamp().items() if state != before.get(path)}
    assert changed == {mine.__file__, str(folder)}


def test_variables_say_who_may_come_from_a_template_and_from_which():
    assert warm.allowed({}) and warm.allowed({"SLURM_JOB_ID": "7"})
    for name, value in (("DDL_WARM", "no"), ("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "0")):
        assert not warm.allowed({name: value}), name
    plain = {"PATH": "/bin", "HOME": "/me"}
    for name in ("XLA_FLAGS", "LD_PRELOAD", "KERAS_HOME", "MY_TOKEN", "HOROVOD_AUTOTUNE_LOG"):
        assert warm.address(warm.identity(plain | {name: "1"})) != warm.address(warm.identity(plain)), name
    for name in ("HOROVOD_RANK", "DDL_RUN_ID", "OMP_NUM_THREADS", "TF_CONFIG", "PYTHONUNBUFFERED"):
        assert warm.identity({name: "1"}) == warm.identity({}), name


@pytest.mark.parametrize("started, ended", [(SimpleNamespace(pid=7), [{7}]), (None, [])])
def test_what_was_started_for_runs_ends_with_them_and_no_other_does(monkeypatch, started, ended):
    stopped = []
    monkeypatch.setattr(warm, "ensure", lambda: started)
    monkeypatch.setattr(warm, "stop", stopped.append)
    with pytest.raises(KeyboardInterrupt), warm.kept():
        raise KeyboardInterrupt
    assert stopped == ended


def test_a_template_gets_only_what_all_its_ranks_have():
    """A token that only its starter has would lie in the memory of every later rank."""
    given = {"PATH": "/bin", "SSH_AUTH_SOCK": "/secret", "JPY_SESSION_NAME": "secret", "DDL_WARM_IDLE_S": "5"}
    given |= {"DDL_RUN_ID": "7", "DDL_LIFELINE": "stdin", "OMP_NUM_THREADS": "3"}
    assert warm.template_environment(given) == {"PATH": "/bin", "DDL_WARM_IDLE_S": "5", processes.TEMPLATE: "1"}


INHERITED = {  # what a fork cannot take over: system calls of x86-64 and their arguments
    "nothing": "",
    "nice": "os.nice(5)",
    "input and output class": "libc.syscall(251, 1, 0, 3 << 13)",
    "personality": "libc.personality(0x0020000)",  # UNAME26, which containers allow, too
    "memory policy": "libc.syscall(238, 2, ctypes.byref(ctypes.c_ulong(1)), 64)",  # MPOL_BIND to node 0
    "transparent huge pages": "libc.prctl(41, 1, 0, 0, 0)",
    "timer slack": "libc.prctl(29, 123456, 0, 0, 0)",
}


def test_a_process_that_is_unlike_a_template_in_what_it_inherits_asks_for_another():
    code = """
import ctypes, json, os
from ddl.launcher import warm
libc, asked = ctypes.CDLL(None), {}
for name, change in json.loads(%r).items():
    read, write = os.pipe()
    if not os.fork():
        exec(change)
        os.write(write, warm.address(warm.identity()).encode())
        os._exit(0)
    asked[name] = os.read(read, 99).decode()
print(json.dumps(asked))
"""
    asked = json.loads(output(sys.executable, "-c", code % json.dumps(INHERITED)))
    assert [name for name in asked if name != "nothing" and asked[name] == asked["nothing"]] == []


SCRIPTS = {
    'os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"': "TF_ENABLE_ONEDNN_OPTS",
    "os.environ.setdefault('OMP_NUM_THREADS', '4')": "OMP_NUM_THREADS",
    'environ.update(\n    HOROVOD_X="1", TF_ENABLE_ONEDNN_OPTS="0")': "TF_ENABLE_ONEDNN_OPTS",
    'os.environ |= {"HOROVOD_CYCLE_TIME": "1", "XLA_FLAGS": x}': "XLA_FLAGS",
    'del os.environ["XLA_FLAGS"]': "XLA_FLAGS",
    'os.environ["TF_CONFIG"] = "HOME"; home = os.environ["HOME"]': "",
    'if os.environ["HOME"] == "RLIMIT_": os.environ.update(settings)': "",
    "import tensorflow as tf  # TF_CPP_MIN_LOG_LEVEL": "",
}


def test_a_script_that_sets_what_imports_read_is_known_by_its_text():
    assert {text: warm.set_by(text) for text in SCRIPTS} == SCRIPTS


def test_a_thread_of_an_ordinary_user_has_the_identity_of_its_process():
    """A supervisor starts each rank from a thread."""
    code = """
import threading
from ddl.launcher import warm
threads = []
thread = threading.Thread(target=lambda: threads.append(warm.identity()))
thread.start()
thread.join()
assert threads == [warm.identity()]
"""
    ordinary = ["setpriv", "--bounding-set=-sys_nice"] if os.geteuid() == 0 else []
    subprocess.run([*ordinary, sys.executable, "-c", code], check=True)
