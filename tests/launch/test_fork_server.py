"""Forked ranks: what a script sees in them, and how fork servers live and end."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from ddl import launch
from ddl.follow import processes
from ddl.records.jsonfiles import read_json
from ddl.start import fork_client
from helpers import printed, until

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
from ddl.start.openblas import blas_functions
seen["BLAS threads"] = sorted(function() for function in blas_functions("get_num_threads"))
hvd.init()
seen["sum"] = float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum))
seen["intra-op threads"] = tf.config.threading.get_intra_op_parallelism_threads()
drawn = [numpy.random.rand(), random.random()]
print(json.dumps({"seen": seen, "drawn": drawn, "libraries": sorted({m.split(".")[0] for m in sys.modules})}))
"""


IGNORED = (signal.SIGHUP, signal.SIGQUIT)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The runs of the same script with forked and with cold ranks, and what their ranks saw."""
    script = tmp_path_factory.mktemp("seen") / "see.py"
    script.write_text(SEEN)
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DDL_VIEW", "plain")
        patch.setenv("DDL_RUNS_DIR", str(tmp_path_factory.mktemp("runs")))
        patch.delenv("DDL_WARM", raising=False)
        fork_client.close()  # the next one inherits what is ignored
        before = [signal.signal(number, signal.SIG_IGN) for number in IGNORED]  # as under nohup
        try:
            fork_client.connection()
            patch.setenv("SSH_SOME_VARIABLE", "äß\n'")  # after the server has started
            for how in (True, False):
                run = launch(script, args=["--m", "x y", 3], oversubscribe=True, warm=how)
                found[how] = run, printed(run)
        finally:
            fork_client.close()
            for number, handler in zip(IGNORED, before, strict=True):
                signal.signal(number, handler)
    return found


@pytest.fixture
def own_server(monkeypatch):
    """Give this test a fork server of its own, and close it afterward."""
    shared = fork_client._server
    monkeypatch.setattr(fork_client, "_server", None)
    yield
    fork_client.close()
    fork_client._server = shared


def start_of(run):
    return [read_json(run.folder / f"rank-{rank}.json")["start"] for rank in range(run.job["ranks"])]


def server():
    return psutil.Process(fork_client._server.process.pid)


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_forked_rank_sees_what_a_cold_rank_sees(both):
    (warm_run, forked), (cold_run, fresh) = both[True], both[False]
    assert start_of(warm_run) == ["warm", "warm"] and start_of(cold_run) == ["cold", "cold"]

    def settled(value, run):
        """Leave out what differs between any two runs.

        That is the run's folder and the ranks' port; the path that setuptools appends when it is imported; and
        /dev/urandom, which Horovod's library keeps open on some processors once it is loaded.
        """
        if isinstance(value, dict):
            return {key: settled(item, run) for key, item in value.items() if key != "HOROVOD_GLOO_RENDEZVOUS_PORT"}
        if isinstance(value, list):
            left_out = re.compile(r"RENDEZVOUS_PORT|/setuptools/_vendor$|^/dev/urandom$")
            return [settled(item, run) for item in value if not left_out.search(str(item))]
        return value.replace(run.id, "RUN") if isinstance(value, str) else value

    for rank in (0, 1):
        ours, theirs = settled(forked[rank]["seen"], warm_run), settled(fresh[rank]["seen"], cold_run)
        assert ours.keys() == theirs.keys()
        assert {key: (ours[key], theirs[key]) for key in ours if ours[key] != theirs[key]} == {}
        assert ours["argv"][1:] == ["--m", "x y", "3"] and ours["environment"]["SSH_SOME_VARIABLE"] == "äß\n'"
        assert ours["sum"] == 2 and ours["context"] == "None" and ours["threads"] == [True, 1]
        assert ours["signals"][signal.SIGHUP - 1] == ours["signals"][signal.SIGQUIT - 1] == "1"


def test_random_state_differs_between_ranks(both):
    drawn = [rank["drawn"] for _, ranks in both.values() for rank in ranks]
    assert all(len(set(column)) == 4 for column in zip(*drawn, strict=True))


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


@pytest.mark.parametrize("warm", [True, False])
def test_rank_ends_like_an_interpreter(script, tmp_path, warm):
    for number, (end, status) in enumerate(ENDS.items()):
        path = tmp_path / f"file-{number}-"
        run = launch(script(LEAVES + end), workers=1, args=[path], check=False, warm=warm)
        assert (end, run.status, start_of(run)) == (end, status, ["warm" if warm else "cold"])
        log, regular = run.logs(), end.startswith(("sys.exit", "raise", "1 /", "threading"))
        assert ("at exit" in log) == regular and ("deleted with" in log) == regular, end
        assert ("waited for" in log) == ("waited for" in end)
        assert (Path(f"{path}0").read_text() == "not flushed") == regular, end


def test_server_is_replaced_if_ranks_would_inherit_something_else(script, monkeypatch, own_server):
    shows = script("import os; print(os.environ.get('TF_ENABLE_ONEDNN_OPTS'), oct(os.umask(0)))")
    servers = []

    def launched(**env):
        run = launch(shows, workers=1, env=env, warm=True)
        servers.append(server().pid)
        assert start_of(run) == ["warm"]
        return run.logs()

    before = os.umask(0o022)
    try:
        assert (first := launched()) == launched(OUT="x", OMP_NUM_THREADS="3") and first.endswith("0o22\n")
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")  # which TensorFlow reads when it is imported
        assert launched() == "0 0o22\n"
        os.umask(0o027)
        assert launched() == "0 0o27\n"
    finally:
        os.umask(before)
    assert servers[0] == servers[1] and len(set(servers)) == 3
    until(lambda: gone(servers[0]) and gone(servers[2]), 10)


def test_script_that_sets_an_import_variable_is_warned(script):
    names = script("import os\nos.environ['TF_DETERMINISTIC_OPS'] = '1'\nos.environ.update(MINE='2', XLA_FLAGS='x')")
    log = launch(names, workers=1).logs()
    assert all(text in log for text in ("TF_DETERMINISTIC_OPS", "XLA_FLAGS", "warm=False")) and "MINE" not in log
    assert launch(names, workers=1, warm=False).logs() == ""


def test_all_processes_end_with_the_run(script, nothing_left):
    """Including children that ranks leave behind, in the same or a new session."""
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


def test_script_that_imports_little_waits_for_no_server(script, own_server):
    light, heavy = script("import json"), script("import json\nif json is None:\n    import tensorflow", "heavy.py")
    assert start_of(launch(light, workers=1)) == ["cold"] and fork_client._server is None
    assert start_of(launch(heavy, workers=1)) == ["warm"]
    assert start_of(launch(light, workers=1)) == ["warm"]  # the server is there now
    fork_client.close()
    assert start_of(launch(light, workers=1, warm=True)) == ["warm"]


# ---------------------------------------------------------------- the server


def test_idle_server_ends(monkeypatch, own_server, script):
    monkeypatch.setenv("DDL_WARM_IDLE_S", "0.5")
    assert start_of(launch(script("pass"), workers=1, warm=True)) == ["warm"]
    until(lambda: gone(fork_client._server.process.pid), 10)
