"""Every way a run can go wrong, with real processes. Nothing of a run may be left after it."""

import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from ddl import attach, launch, runs
from ddl.follow import processes
from ddl.follow.run import RunInterrupted
from ddl.records.jsonfiles import read_json, read_json_lines
from ddl.records.machine import host_name
from helpers import started, until

# Every failure with cold ranks, and four of them also warm.
cold = pytest.mark.parametrize("start", ["cold"], indirect=True)
both = pytest.mark.parametrize("start", ["cold", "warm"], indirect=True)

FIRST = """\
import os, signal, subprocess, sys, time
rank = int(os.environ["HOROVOD_RANK"])
"""
SLEEP = FIRST + "time.sleep(600)\n"


DAEMON = """
pid = subprocess.Popen(["env", "-i", sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True).pid
print(pid, flush=True)
logs = [f"{os.environ['DDL_RUN_DIR']}/rank-{number}.log" for number in range(2)]
while not all(os.path.exists(log) and os.path.getsize(log) for log in logs):
    time.sleep(0.01)
"""


@both
@pytest.mark.parametrize("end", ["", "1 / 0"])
def test_process_without_the_mark_ends_with_the_run(ran, end):
    run = ran(DAEMON + end, wait=False)
    pids = [int(run.logs(rank).split()[0]) for rank in range(2)]
    until(lambda: not any(map(psutil.pid_exists, pids)), 10)


@pytest.fixture
def ran(script, nothing_left):
    """Return a function that runs two ranks of a script, which waits at its end where it is to."""

    def run(text, wait=True, **options):
        path = script(FIRST + textwrap.dedent(text) + "\ntime.sleep(600)\n" * wait)
        run = launch(path, check=False, oversubscribe=True, **{"timeout_s": 90, **options})
        nothing_left(run)
        return run

    return run


@both
def test_raised_exception_is_reported_with_its_rank(ran, capfd):
    run = ran("""
    def deep():
        raise ValueError("broken on purpose")
    if rank == 1:
        deep()
    """)
    failure = run.failure
    assert failure.sentence.startswith("rank 1 of 2") and "raised ValueError" in failure.sentence
    frames = failure.traceback.splitlines()
    assert frames[0].startswith("Traceback") and "script.py" in frames[1]
    assert frames[-1] == "ValueError: broken on purpose"
    assert "ddl/start/worker.py" not in failure.traceback and "horovod/runner" not in failure.traceback
    error = read_json(run.folder / "error-1.json")
    ended = read_json_lines(run.folder / "launcher.jsonl")[-1]
    assert ended["event"] == "ended" and ended["time"] - error["time"] < 5
    shown = capfd.readouterr().out
    assert shown.index("rank 1 of 2") < shown.index("Traceback") < shown.index("logs")
    assert "horovod/runner" not in shown


REFUSED = "unrecognized arguments: --n"
ENDS = {  # of rank 1: the run's status, what became of the rank, and what its traceback holds
    "os._exit(3)": (3, "exited with status 3", ""),
    "os.abort()": (134, "was killed by SIGABRT", 'script.py", line 5 in <module>'),  # Python's own stack
    "os.kill(os.getpid(), signal.SIGKILL)": (137, "was killed by SIGKILL", ""),
    'sys.exit("the data set is not here")': (1, "exited with an error", "the data set is not here\n"),
    # A child holds the output open.
    "subprocess.Popen(['sleep', '600'], start_new_session=True); 1 / 0": (1, "raised ZeroDivisionError", "script.py"),
    "sys.stdout.close(); sys.stderr.close(); 1 / 0": (1, "raised ZeroDivisionError", "script.py"),
    "os.close(1); os.close(2); 1 / 0": (1, "raised ZeroDivisionError", "script.py"),
    "sys.stdout = sys.stderr = None; 1 / 0": (1, "raised ZeroDivisionError", "script.py"),
    "import argparse; print(); argparse.ArgumentParser(prog='x').parse_args(['--n'])": (
        2,
        f"refused its options ({REFUSED})",
        "",
    ),
}


@cold
def test_sudden_end_of_a_rank_is_reported(ran, capfd):
    for end, (status, became, traceback) in ENDS.items():
        run = ran(f"print('on its way', end='')\nif rank == 1:\n    {end}")
        assert run.failure.sentence.startswith(f"rank 1 of 2 on {host_name()} {became}"), end
        output = f"x: error: {REFUSED}" if "argparse" in end else "on its way"
        assert (run.status, run.failure.output) == (status, (output,)), end
        assert f"[1] {output}" in capfd.readouterr().out and traceback in run.failure.traceback, end


@cold
def test_script_with_a_packages_name_is_to_be_renamed(script, monkeypatch):
    path = script("import horovod.tensorflow", "horovod.py")
    monkeypatch.chdir(path.parent)
    run = launch(path, workers=1, check=False)
    assert "Rename" in run.failure.advice and run.failure.rank == 0


@cold
@pytest.mark.parametrize("end", ["sys.stdout.close()", "sys.stderr.close(); sys.stdout = None", "os.close(1)"])
def test_closed_output_is_no_failure(ran, end):
    assert ran(end, wait=False).state == "done"


@pytest.mark.parametrize("start", ["warm"], indirect=True)  # to import takes longer than that on a busy machine
def test_rank_missing_from_a_collective_is_named(ran, monkeypatch, capfd):
    monkeypatch.setenv("DDL_STALL_S", "3")
    run = ran(
        """
        import horovod.tensorflow as hvd
        import tensorflow as tf
        hvd.init()
        print("up", flush=True)
        if hvd.rank() == 1:
            time.sleep(600)
        hvd.allreduce(tf.constant(1.0))
        """,
        timeout_s=30,
    )
    assert run.state == "failed"
    assert "time limit of 30 s: the others were waiting for rank 1" in run.failure.sentence
    assert "script.py" in run.failure.traceback
    while_it_ran = capfd.readouterr().out.partition("time limit")[0]
    assert ": rank 0 is waiting for rank 1\n" in while_it_ran and "script.py" in while_it_ran


# A shell's background job ignores SIGINT, and so would a test that was started as one.
INTERRUPTIBLE = """
import signal, sys
from ddl import launch
from ddl.follow import process_control as lifetime
signal.signal(signal.SIGINT, signal.default_int_handler)
lifetime.STOP_GRACE_S = float(sys.argv[2])
try:
    launch(sys.argv[1], oversubscribe=True)
except KeyboardInterrupt as error:
    sys.exit(42 if "was stopped" in error._render_traceback_()[0] else 1)
"""

STARTS = [("warm", "start"), ("warm", "training"), ("cold", "import")]
STAGES = {
    "start": ("import time; time.sleep(600)", lambda run: True),
    "import": ("import tensorflow, time; time.sleep(600)", lambda run: run.state == "running"),
    "training": (
        """
        import os, time
        from ddl.records.recorder import Recorder
        if os.environ["HOROVOD_RANK"] == "0":
            recorder = Recorder()
            recorder.event("start", steps=10, epochs=1)
            recorder.event("step", step=1, epoch=0.1, samples=8, loss=1.0)
        time.sleep(600)
    """,
        lambda run: run.state == "training",
    ),
}


@pytest.mark.parametrize("start, stage", STARTS, indirect=["start"])
def test_interrupted_cell_stops_the_run(script, nothing_left, stage):
    """As Jupyter does it: SIGINT to the process that called `launch`. A launcher that is gone is not waited for."""
    text, reached = STAGES[stage]
    line = [sys.executable, "-c", INTERRUPTIBLE, str(script(text)), "1e6" if stage == "start" else "6"]
    with started(*line) as cell:
        assert cell.stdout.readline().startswith("$ ")  # it follows the run
        (run,) = runs()
        until(lambda: reached(run))
        cell.send_signal(signal.SIGINT)
        cell.communicate(timeout=30)
    assert cell.returncode == 42
    assert run.state == "stopped" and run.failure is None


def test_stopped_run_ends_the_cell(script, nothing_left):
    """As the panel's Stop does it."""
    path = script("import os, time; from ddl import attach; attach(os.environ['DDL_RUN_ID']).stop(); time.sleep(60)")
    with pytest.raises(RunInterrupted) as error:
        launch(path, workers=1)
    assert error.value.run.state == "stopped"


@both
def test_killed_kernel_stops_the_run(script, nothing_left):
    path = script(SLEEP)
    code = "import sys; from ddl import launch; launch(sys.argv[1], oversubscribe=True)"
    kernel = subprocess.Popen([sys.executable, "-c", code, str(path)])
    until(lambda: runs() and runs()[0].state == "running")
    (run,) = runs()
    kernel.kill()
    kernel.wait()
    until(lambda: processes.of_run(run.id) == [], timeout_s=8)
    assert attach(run.id).state == "stopped"
