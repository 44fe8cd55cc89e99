"""Warm ranks: what a script sees in a fork of a template, and how templates live and end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ddl import launch, runs
from ddl.cli import main
from ddl.launcher import processes, warm
from ddl.records.jsonfiles import read_json
from helpers import ROOT, printed, until

SEEN = """
import atexit, faulthandler, gc, json, os, random, resource, signal, sys, threading
import multiprocessing, tempfile
first = open("/dev/null")  # the lowest free descriptor
seen = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "executable": sys.executable,
    "main": [__name__, __file__, sorted(name for name in globals() if name.startswith("__"))],
    "main module": sys.modules["__main__"].__dict__ is globals(),
    "path": sys.path,
    "flags": list(sys.flags),
    "environment": dict(os.environ),
    "executable in /proc": os.readlink("/proc/self/exe"),
    "name in /proc": open("/proc/self/comm").read(),
    "parent": os.getppid() != 1,
    "folder": os.getcwd(),
    "umask": os.umask(0o22),
    "threads": [os.listdir("/proc/self/task") == [str(os.getpid())], threading.active_count()],
    "main thread": threading.current_thread() is threading.main_thread(),
    "descriptors": sorted(os.readlink(f"/proc/self/fd/{n}") for n in range(first.fileno())),
    "leader": os.getsid(0) in (os.getpid(), os.getppid()),
    "signals": [str(signal.getsignal(n)).split(" at ")[0] for n in sorted(signal.valid_signals())],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "scheduling": [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0), sorted(os.sched_getaffinity(0))],
    "oom": open("/proc/self/oom_score_adj").read(),
    "faulthandler": faulthandler.is_enabled(),
    "streams": [
        [type(stream).__name__, type(stream.buffer).__name__, stream.encoding, stream.errors, stream.fileno()]
        for stream in (sys.stdin, sys.stdout, sys.stderr)
    ],
    "collector": [gc.isenabled(), gc.get_threshold()],
    "temporary": tempfile.gettempdir(),
    "processes": [multiprocessing.parent_process() is None, multiprocessing.current_process().name],
}
assert os.times().user < 60
import horovod.tensorflow as hvd
import numpy
import tensorflow as tf
from tensorflow.python.eager import context
seen["context"] = str(context._context)
seen["policy"] = tf.keras.mixed_precision.global_policy().name
from ddl.rank.fork import blas_functions
seen["BLAS threads"] = sorted(function() for function in blas_functions("get_num_threads"))
hvd.init()
seen["sum"] = float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum))
seen["intra-op threads"] = tf.config.threading.get_intra_op_parallelism_threads()
drawn = [numpy.random.rand(), random.random(), multiprocessing.current_process().authkey.hex()]
print(json.dumps({"seen": seen, "drawn": drawn, "libraries": sorted({m.split(".")[0] for m in sys.modules})}))
"""


IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """What the ranks of a warm and of a cold run saw."""
    script = tmp_path_factory.mktemp("seen") / "see.py"
    script.write_text(SEEN)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDL_VIEW", "plain")
        patch.setenv("DDL_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))
        patch.setenv("SSH_SOME_VARIABLE", "äß\n'")  # which the template of other tests serves, too
        patch.delenv("DDL_WARM", raising=False)
        warm.await_ready()
        # As under nohup, and in the background of a script.
        before = [signal.signal(number, signal.SIG_IGN) for number in IGNORED]
        try:
            for how in (True, False):
                run = launch(script, args=["--m", "x y", 3], oversubscribe=True, warm=how)
                found[how] = run, printed(run)
        finally:
            for number, handler in zip(IGNORED, before, strict=True):
                signal.signal(number, handler)
    return found


def start_of(run):
    return [read_json(run.folder / f"rank-{rank}.json")["start"] for rank in range(run.job["processes"])]


def test_a_script_sees_what_a_cold_start_shows(both):
    (warm_run, forked), (cold_run, fresh) = both[True], both[False]
    assert start_of(warm_run) == ["warm", "warm"] and start_of(cold_run) == ["cold", "cold"]

    def settled(value, run):
        """Without what differs from run to run: its folder, and the port at which ranks meet.

        And without where setuptools has other packages, which it appends to the path as it is imported; and without
        the /dev/urandom that Horovod's library, once it is loaded, keeps open where the processor is not Intel's.
        """
        if isinstance(value, dict):
            return {key: settled(item, run) for key, item in value.items() if key != "HOROVOD_GLOO_RENDEZVOUS_PORT"}
        if isinstance(value, list):
            left_out = re.compile(r"RENDEZVOUS_PORT|/setuptools/_vendor$|^/dev/urandom$")
            return [settled(item, run) for item in value if not left_out.search(str(item))]
        return value.replace(run.id, "RUN") if isinstance(value, str) else value

    for rank in (0, 1):
        ours, theirs = settled(forked[rank]["seen"], warm_run), settled(fresh[rank]["seen"], cold_run)
        words = theirs["orig_argv"]
        del words[words.index("--start") : words.index("cold") + 1]  # the one word that asks for it
        assert ours.keys() == theirs.keys()
        assert {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]} == {}
        assert ours["argv"][1:] == ["--m", "x y", "3"] and ours["environment"]["SSH_SOME_VARIABLE"] == "äß\n'"
        assert ours["sum"] == 2 and ours["context"] == "None" and ours["threads"] == [True, 1]
        assert ours["signals"][signal.SIGHUP - 1] == ours["signals"][signal.SIGQUIT - 1] == "1"


def test_no_two_ranks_draw_the_same(both):
    drawn = [rank["drawn"] for _, ranks in both.values() for rank in ranks]
    assert all(len(set(column)) == 4 for column in zip(*drawn, strict=True))


def test_the_template_has_imported_nothing_else(both):
    forked, fresh = ({*ranks[0]["libraries"]} for _, ranks in (both[True], both[False]))
    assert {"horovod", "tensorflow"} <= fresh
    assert {name for name in forked - fresh if "cython" not in name} == set()


ENDS = {
    "sys.exit(3)": 3,
    "sys.exit('gave up')": 1,
    "1 / 0": 1,
    "os.kill(os.getpid(), signal.SIGKILL)": 128 + 9,
    "os._exit(7)": 7,
    "threading.Thread(target=lambda: (time.sleep(0.3), print('waited for'))).start()": 0,
    "threading.Thread(target=time.sleep, args=[600], daemon=True).start()": 0,
}
LEAVES = """
import atexit, os, signal, sys, threading, time
file = open(sys.argv[1] + os.environ["HOROVOD_RANK"], "w")
file.write("not flushed")
class Last:
    def __del__(self):
        print("deleted with", file.name, os.path.basename(file.name), flush=True)
last = Last()
last.itself = last
atexit.register(print, "at exit")
"""


def test_a_rank_ends_as_it_would(script, tmp_path):
    for number, (end, status) in enumerate(ENDS.items()):
        path = tmp_path / f"file-{number}-"
        run = launch(script(LEAVES + end), workers=1, args=[path], check=False)
        assert (end, run.status, start_of(run)) == (end, status, ["warm"])
        log, regular = run.logs(), end.startswith(("sys.exit", "raise", "1 /", "threading"))
        assert ("at exit" in log) == regular and ("deleted with" in log) == regular, end
        assert ("waited for" in log) == ("waited for" in end)
        assert (Path(f"{path}0").read_text() == "not flushed") == regular, end


def test_what_reads_other_variables_starts_cold(script, monkeypatch):
    plain = script("pass", "plain.py")
    assert start_of(launch(plain, workers=1)) == ["warm"]
    assert start_of(launch(plain, workers=1, warm=False)) == ["cold"]
    names = script("import os\nos.environ['TF_ENABLE_ONEDNN_OPTS'] = '0'", "names.py")
    assert start_of(launch(names, workers=1)) == ["cold"]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # read again by every fork
    assert start_of(launch(plain, workers=1)) == ["warm"]
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert start_of(launch(plain, workers=1)) == ["cold"]


@pytest.mark.slow
def test_ten_launches_leave_nothing_behind(script, template):
    trivial = script("import horovod.tensorflow as hvd; hvd.init()")
    process = psutil.Process(template["pid"])

    def held():
        return process.num_fds(), process.num_threads(), len(process.children())

    launch(trivial, oversubscribe=True)
    before, memory = held(), process.memory_info().rss
    ids = [launch(trivial, oversubscribe=True).id for _ in range(10)]
    # The first launch may still have held something when that was counted.
    until(lambda: all(now <= then for now, then in zip(held(), before, strict=True)), 10)
    assert process.memory_info().rss - memory < 8 << 20
    assert not any(map(processes.of_run, ids))


def test_a_run_of_two_ranks_has_one_process_more_and_ends_with_it(script, nothing_left):
    """What ranks leave behind, with and without a session of its own, included."""
    sleeper = script("""
        import os, subprocess, time
        for begin in (lambda: None, os.setsid):
            if not os.fork():
                begin()
                time.sleep(600)
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("here", flush=True)
        time.sleep(600)
    """)
    for ranks_too in (True, False):
        run = launch(sleeper, wait=False, check=False, oversubscribe=True)
        until(lambda: len(list(run.folder.glob("rank-?.log"))) == 2 and "here" in run.logs(0) + run.logs(1))  # noqa: B023
        until(lambda: len(processes.of_run(run.id)) == 9, 10)  # noqa: B023
        (supervisor,) = set(processes.of_run(run.id)) - set(processes.of_run(run.id, mark="DDL_RANKS_OF"))
        assert start_of(run) == ["warm", "warm"]
        os.kill(read_json(run.folder / "rank-0.json")["pid"] if ranks_too else supervisor, signal.SIGKILL)
        run.wait()
        assert run.state in ("failed", "lost") and ("SIGKILL" in run.failure.sentence or not ranks_too)


# ---------------------------------------------------------------- the template itself


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A template of this test's own, for a copy of the package; return the copy."""
    copy = tmp_path / "package"
    shutil.copytree(ROOT / "source_code" / "ddl", copy / "ddl", ignore=shutil.ignore_patterns("__pycache__"))
    module = copy / "ddl" / "launcher" / "warm.py"
    text = module.read_text()
    module.write_text(text.replace("\nMOST = 3 ", "\nMOST = 99 "))  # other tests have templates, too
    assert module.read_text() != text
    monkeypatch.setenv("PYTHONPATH", str(copy))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    yield copy
    ended = warm.stop([*templates_of(copy), *(found["pid"] for found in warm.running() if found["here"])])
    until(lambda: all(map(gone, ended)), 5)


def templates_of(package):
    """The ids of the templates that import this copy of the package."""
    running = [psutil.Process(found["pid"]) for found in warm.running()]
    return [each.pid for each in running if each.environ().get("PYTHONPATH") == str(package)]


def gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_launch_waits_for_a_template_that_still_imports_and_one_whose_files_change_ends(own, script):
    template = warm.start()
    until(lambda: any(found["here"] for found in warm.running()), 20)
    trivial = script("pass")
    assert start_of(launch(trivial, workers=1)) == ["warm"] and template.poll() is None
    with open(own / "ddl" / "rank" / "worker.py", "a") as file:
        file.write("\n")
    time.sleep(1.1)  # it looks once a second
    assert start_of(launch(trivial, workers=1)) == ["cold"]
    until(lambda: gone(template.pid), 10)


@pytest.mark.slow
def test_a_killed_template_takes_its_ranks_along(own, script, nothing_left):
    pid = warm.await_ready()["pid"]
    run = launch(script("import time; print('here', flush=True); time.sleep(600)"), wait=False, oversubscribe=True)
    until(lambda: (run.folder / "rank-1.log").exists() and "here" in run.logs(1))
    os.kill(pid, signal.SIGKILL)
    run.wait()
    assert run.state == "failed" and "SIGKILL" in run.failure.sentence
    assert not any(found["here"] for found in warm.running())
    assert start_of(launch(script("pass"), workers=1)) == ["cold"]


@pytest.mark.slow
def test_a_template_says_what_it_does_and_waits_for_its_ranks_when_it_is_stopped(own, script, capsys):
    assert main(["warm"]) == 0
    assert "keeps TensorFlow imported: " in (line := capsys.readouterr().out) and "MiB, 0 starts so far" in line
    slow = script("import time; print('here', flush=True); time.sleep(1)")
    run = launch(slow, wait=False, workers=1)
    until(lambda: (run.folder / "rank-0.log").exists() and "here" in run.logs())
    (pid,) = [found["pid"] for found in warm.running() if found["here"]]
    assert warm.stop([pid]) == [pid]
    assert run.wait().state == "done"
    until(lambda: gone(pid), 10)


@pytest.mark.slow
def test_an_idle_template_ends(own, monkeypatch):
    monkeypatch.setenv("DDL_WARM_IDLE_S", "0.5")
    pid = warm.await_ready()["pid"]
    until(lambda: pid not in [found["pid"] for found in warm.running()], 10)  # listing keeps none
    until(lambda: gone(pid), 10)


@pytest.mark.slow
def test_a_template_that_cannot_import_stops_no_launch(own, script):
    (own / "horovod").mkdir()
    (own / "horovod" / "__init__.py").write_text("import time; time.sleep(2); raise ImportError('broken on purpose')")
    with pytest.raises(warm.NoTemplate, match=r"ended while it imported \(exit 1\): see .*warm\.log"):
        warm.await_ready()
    shutil.rmtree(own / "horovod")
    assert start_of(launch(script("pass"), workers=1)) == ["cold"]


OTHER = "import os, socket; os.setuid(65534); talk = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"


@pytest.mark.slow  # to become another user takes root
def test_no_other_user_gets_an_answer_or_is_handed_anything(template):
    """Root could, and becomes somebody else for this."""
    asks = f"""
talk.connect({warm.address(warm.identity())!r})
try:
    talk.sendall(b'{{"do": "status"}}')
    print(talk.recv(1))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
    done = subprocess.run([sys.executable, "-c", OTHER + asks], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "b''"
    assert any(found["here"] and found["ready"] for found in warm.running())
    name = f"\0ddl-warm-{os.getuid()}-{os.getpid():032x}"
    answers = f"talk.bind({name!r}); talk.listen(); print('ready', flush=True); print(talk.accept()[0].recv(1))"
    with subprocess.Popen([sys.executable, "-c", OTHER + answers], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "ready\n"
        assert warm.connect(name) is None
        assert other.communicate(timeout=10)[0].strip() == "b''"


def test_few_templates_start_by_themselves_and_one_that_failed_is_not_tried_again(monkeypatch):
    listeners, started = [], []
    for number in range(warm.MOST):
        listeners.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listeners[-1].bind(f"\0ddl-warm-{os.getuid()}-{number:032x}")
        listeners[-1].listen()
    failed = SimpleNamespace(poll=lambda: 1)
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    monkeypatch.setattr(warm, "_started", [])
    monkeypatch.setattr(warm, "start", lambda environment: started.append(1) or failed)
    warm.ensure()
    assert not started
    monkeypatch.setattr(warm, "peer", lambda connection: (1, os.getuid() + 1))  # they are another user's
    warm.ensure()
    warm.ensure()
    assert started == [1]
    for listener in listeners:
        listener.close()


# Writes down the name of every variable that is read.
SHIM = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#define NOTED(function) extern "C" char *function(const char *name) { \
    static auto next = (char *(*)(const char *))dlsym(RTLD_NEXT, #function); \
    static int log = open("reads.txt", O_WRONLY | O_CREAT | O_APPEND, 0644); \
    dprintf(log, "%s\n", name); \
    return next(name); \
}
NOTED(getenv)
NOTED(secure_getenv)
"""
READ = """
import os, sys
get = os.environ.__class__.__getitem__
def noted(self, name):
    read = os.fsdecode(name)
    # PyTorch brings fsspec, which an import finds: it goes through all variables for those with its name.
    if sys._getframe(1).f_globals.get("__name__") != "fsspec.config" or read.startswith("FSSPEC_"):
        with open("reads.txt", "a") as log:
            print(read, file=log)
    return get(self, name)
os.environ.__class__.__getitem__ = noted
import horovod.tensorflow
"""


@pytest.mark.slow  # it takes a compiler
def test_nothing_that_an_import_reads_is_ignored(tmp_path):
    (tmp_path / "shim.cpp").write_text(SHIM)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", "shim.so", "shim.cpp", "-ldl"], cwd=tmp_path, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "shim.so")}
    subprocess.run([sys.executable, "-c", READ], cwd=tmp_path, env=environment, check=True, capture_output=True)
    reads = set((tmp_path / "reads.txt").read_text().split())
    assert {"OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "KERAS_HOME", "PYTHONHASHSEED"} <= reads  # the shim works
    again = {"OMP_NUM_THREADS", "TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS"}  # by the fork
    by_programs = {"COLUMNS", "LINES", "TEMP", "TMP", "TMPDIR", "PYTHONUNBUFFERED", "TERM"}
    assert {name for name in reads if not warm.matters(name)} - again - by_programs == set()


@pytest.mark.slow
def test_a_notebook_starts_a_template_with_its_first_launch(own, script):
    from nbclient import NotebookClient
    from nbformat import v4

    trivial = script("pass")
    cells = [
        v4.new_code_cell(code) for code in ("from ddl import launch", f"run = launch({str(trivial)!r}, workers=1)")
    ]
    client = NotebookClient(v4.new_notebook(cells=cells), kernel_name="python3", timeout=100)
    with client.setup_kernel(env=dict(os.environ)):
        client.execute_cell(cells[0], 0)
        assert templates_of(own) == []
        client.execute_cell(cells[1], 1)
    (run,) = runs()
    assert start_of(run) == ["warm"]
    assert len(templates_of(own)) == 1  # for the next notebook, and for terminals
