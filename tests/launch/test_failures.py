"""Every way a run can go wrong, with real processes. Nothing of a run may be left after it."""

import os
import signal
import subprocess
import sys
from html import unescape
from pathlib import Path

import psutil
import pytest

from ddl import RunFailed, attach, launch, runs
from ddl.cli import main
from ddl.display.panel import final_html
from ddl.launcher import processes
from ddl.records.jsonfiles import read_json, read_json_lines
from ddl.records.machine import host_name
from helpers import until

# A fork starts in half a second, so that the fast tests have all failures warm; the full run has them cold, too.
STARTS = [pytest.param("cold", marks=pytest.mark.slow), "warm"]
pytestmark = pytest.mark.parametrize("start", STARTS, indirect=True)

WAIT = """
    import os, sys, time
    rank = int(os.environ["HOROVOD_RANK"])
"""


def test_a_rank_raises(script, nothing_left, capfd):
    run = launch(
        script(
            WAIT
            + """
    def deep():
        raise ValueError("broken on purpose")
    if rank == 1:
        deep()
    time.sleep(600)
    """
        ),
        check=False,
        oversubscribe=True,
    )
    failure = run.failure
    assert failure.sentence.startswith("rank 1 of 2") and "raised ValueError" in failure.sentence
    frames = failure.traceback.splitlines()
    assert frames[0].startswith("Traceback") and "script.py" in frames[1]
    assert frames[-1] == "ValueError: broken on purpose"
    assert "ddl/rank/worker.py" not in failure.traceback and "horovod/runner" not in failure.traceback
    error = read_json(run.folder / "error-1.json")
    ended = read_json_lines(run.folder / "launcher.jsonl")[-1]
    assert ended["event"] == "ended" and ended["time"] - error["time"] < 5
    shown = capfd.readouterr().out
    assert shown.index("rank 1 of 2") < shown.index("Traceback") < shown.index("logs")
    assert "horovod/runner" not in shown
    nothing_left(run)


def test_a_failed_run_ends_the_cell_with_one_sentence(script):
    with pytest.raises(RunFailed, match="rank 0 of 1 .* raised ZeroDivisionError") as caught:
        launch(script("1 / 0"), workers=1)
    run = caught.value.run
    assert caught.value._render_traceback_() == [f"RunFailed: run {run.id} failed, and why is shown above"]


def test_a_rank_gives_up_with_a_message(script, nothing_left):
    run = launch(
        script(
            WAIT
            + """
    if rank == 0:
        sys.exit("the data set is not here")
    time.sleep(600)
    """
        ),
        check=False,
        oversubscribe=True,
    )
    assert run.state == "failed"
    assert "rank 0 of 2" in run.failure.sentence and "gave up" in run.failure.sentence
    assert run.failure.traceback == "the data set is not here\n"
    nothing_left(run)


MISTAKEN = """
    import argparse
    parser = argparse.ArgumentParser(prog="train.py")
    parser.add_argument("--batch-size", type=int)
    print("reading the command line")
    parser.parse_args()
"""


def test_a_rank_exits_with_a_status(script, nothing_left, capfd):
    status = main(["run", "--oversubscribe", str(script(MISTAKEN)), "--batch-size", "three"])
    shown = capfd.readouterr().out
    (run,) = runs()
    (error,) = run.failure.output
    why = "argument --batch-size: invalid int value: 'three'"
    assert status == 2 and error == f"train.py: error: {why}"
    for place in (str(RunFailed(run)), unescape(final_html(run.progress()))):
        assert f"refused its options ({why})" in place and "usage:" not in place
    assert "reading the command line" in shown and error in shown
    nothing_left(run)


LAST_WORDS = """
    import os, signal, sys, time
    print("on its way", end="")
    if os.environ["HOROVOD_RANK"] == "1":
        {end}
    time.sleep(600)
"""


@pytest.mark.parametrize(
    "end, status, says",
    [
        ("os._exit(3)", 3, "rank 1 of 2 on {host} exited with status 3"),
        ("os.abort()", 134, "rank 1 of 2 on {host} was killed by SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL"),
    ],
)
def test_a_rank_is_gone_at_once(script, nothing_left, capfd, end, status, says):
    run = launch(script(LAST_WORDS.format(end=end)), check=False, oversubscribe=True)
    assert run.status == status and says.format(host=host_name()) in run.failure.sentence
    assert run.failure.output == ("on its way",) and "[1] on its way" in capfd.readouterr().out
    if "abort" in end:  # Python's own stack is there, too
        assert 'script.py", line 5 in <module>' in run.failure.traceback
    nothing_left(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["sys.stdout.close(); sys.stderr.close()", "os.close(1); os.close(2)", "sys.stdout = sys.stderr = None"]
)
def test_a_script_that_has_closed_its_output_fails_in_words(script, nothing_left, first):
    run = launch(
        script(f"""
        import os, sys
        print("before", end="")
        {first}
        raise ValueError("after")
    """),
        workers=1,
        check=False,
    )
    assert run.failure.type == "ValueError" and run.failure.message == "after"
    assert run.failure.output == ("before",) and "script.py" in run.failure.traceback
    nothing_left(run)


@pytest.mark.slow
def test_a_rank_leaves_early_while_others_wait(script, nothing_left):
    run = launch(
        script("""
        import horovod.tensorflow as hvd
        import tensorflow as tf
        hvd.init()
        for _ in range(2 if hvd.rank() == 1 else 3):
            hvd.allreduce(tf.constant(1.0))
        print("all done")
    """),
        check=False,
        oversubscribe=True,
        timeout_s=90,
    )
    assert run.failure.sentence.startswith("rank 1 of 2")
    assert "ended with status 0" in run.failure.sentence
    assert run.failure.output[-1] == "all done" and run.failure.others == "rank 0 lost touch"
    assert "script.py" in run.failure.traceback and run.status == 1
    nothing_left(run)


def test_a_script_with_a_syntax_error(script, nothing_left):
    run = launch(script("def (:\n"), check=False, oversubscribe=True)
    assert run.failure.type == "SyntaxError" and "script.py" in run.failure.traceback
    nothing_left(run)


def test_a_rank_is_killed(script, nothing_left):
    run = launch(script(WAIT + "    time.sleep(600)\n"), wait=False, oversubscribe=True)
    until(lambda: run.state == "running")
    os.kill(run.progress().ranks[1].pid, signal.SIGKILL)
    run.wait()
    assert run.state == "failed"
    assert "rank 1 of 2" in run.failure.sentence and "SIGKILL" in run.failure.sentence
    nothing_left(run)


def test_a_crashed_rank_leaves_a_child_that_holds_stdout(script, nothing_left):
    run = launch(
        script(
            WAIT
            + """
    import subprocess
    if rank == 1:
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        raise RuntimeError("crash")
    time.sleep(600)
    """
        ),
        check=False,
        oversubscribe=True,
        timeout_s=60,
    )
    assert run.failure.type == "RuntimeError"
    nothing_left(run)


def test_ranks_print_bytes_that_are_not_utf_8(script, nothing_left):
    run = launch(
        script(
            WAIT
            + """
    sys.stdout.buffer.write(b"before \\xff\\xfe after\\n")
    """
        ),
        oversubscribe=True,
        timeout_s=60,
    )
    assert run.state == "done"
    assert run.logs(rank=1) == "before \ufffd\ufffd after\n"
    nothing_left(run)


@pytest.mark.slow  # it waits for its time limit
def test_a_rank_that_never_reaches_the_collective_is_named(script, nothing_left, monkeypatch, capfd):
    monkeypatch.setenv("DDL_STALL_S", "3")
    run = launch(
        script("""
        import time
        import horovod.tensorflow as hvd
        import tensorflow as tf
        hvd.init()
        if hvd.rank() == 1:
            time.sleep(600)
        hvd.allreduce(tf.constant(1.0))
    """),
        check=False,
        oversubscribe=True,
        timeout_s=30,
    )
    assert run.state == "failed"
    assert "time limit of 30 s: the others were waiting for rank 1" in run.failure.sentence
    assert "script.py" in run.failure.traceback
    while_it_ran = capfd.readouterr().out.partition("time limit")[0]
    assert "note: nothing new for 3 s: rank 0 is waiting for rank 1\n" in while_it_ran and "script.py" in while_it_ran
    nothing_left(run)


# A shell's background job ignores SIGINT, and so would a test that was started as one.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

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


@pytest.mark.parametrize("stage", STAGES)
def test_the_cell_is_interrupted(script, nothing_left, stage):
    """As Jupyter does it: SIGINT to the process that called `launch`. A launcher that is gone is not waited for."""
    text, reached = STAGES[stage]
    path = script(text)
    patient = "from ddl.launcher import lifetime\nlifetime.STOP_GRACE_S = 1e6\n" if stage == "start" else ""
    code = (
        INTERRUPTIBLE + patient + "import sys; from ddl import launch\n"
        "try:\n    launch(sys.argv[1], oversubscribe=True)\n"
        "except KeyboardInterrupt as error:\n"
        "    sys.exit(42 if 'was stopped' in error._render_traceback_()[0] else 1)\n"
    )
    cell = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert cell.stdout.readline().startswith("$ ")  # it follows the run
        (run,) = runs()
        until(lambda: reached(run))
        cell.send_signal(signal.SIGINT)
        cell.communicate(timeout=30)
    finally:
        cell.kill()
    assert cell.returncode == 42
    assert run.state == "stopped" and run.failure is None
    nothing_left(run)


def test_a_second_interrupt_ends_at_once(script, nothing_left):
    """The launcher is stopped, so that what asks it to end waits for ever."""
    path = script(WAIT + "    time.sleep(600)\n")
    code = (
        INTERRUPTIBLE
        + "import sys; from ddl import launch; from ddl.launcher import lifetime\nlifetime.STOP_GRACE_S = 1e6\n"
        "try:\n    launch(sys.argv[1], oversubscribe=True)\n"
        "except KeyboardInterrupt as error:\n"
        "    sys.exit(42 if 'was stopped' in error._render_traceback_()[0] else 1)\n"
    )
    cell = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        until(lambda: runs() and runs()[0].state == "running")
        (run,) = runs()
        launched = read_json_lines(run.folder / "launcher.jsonl")[0]
        os.kill(launched["pid"], signal.SIGSTOP)
        until(lambda: is_stopped(launched["pid"]))  # a thread that still runs would take the signal that comes next
        cell.send_signal(signal.SIGINT)
        until(lambda: "T" not in status_of(cell.pid) and asked_to_stop(launched["pid"]))
        cell.send_signal(signal.SIGINT)
        assert cell.wait(30) == 42
    finally:
        cell.kill()
        cell.wait()
    assert run.state == "stopped"
    nothing_left(run)


def status_of(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def is_stopped(pid):
    """Whether every thread of a process is."""
    return all(
        stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in Path(f"/proc/{pid}/task").glob("*/stat")
    )


def asked_to_stop(pid):
    """Whether a stopped process has a SIGTERM waiting for it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    waiting = next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))
    return waiting & 1 << signal.SIGTERM - 1


def test_a_run_that_nobody_holds_leaves_no_descriptor_and_no_zombie(script):
    def open_files():
        return {
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{fd}")
        }

    path = script("pass")
    launch(path, oversubscribe=True, workers=1)  # what is opened once, is open from here on
    files = open_files()  # that run's own may still be closing
    run = launch(path, oversubscribe=True, workers=1, wait=False)
    run_id = run.id
    assert open_files() - files
    del run
    until(lambda: attach(run_id).state == "done")
    launcher = read_json_lines(attach(run_id).folder / "launcher.jsonl")[0]["pid"]
    until(lambda: open_files() <= files and not psutil.pid_exists(launcher))  # a zombie has its number still


def test_the_kernel_is_killed(script, nothing_left):
    path = script(WAIT + "    time.sleep(600)\n")
    code = "import sys; from ddl import launch; launch(sys.argv[1], oversubscribe=True)"
    kernel = subprocess.Popen([sys.executable, "-c", code, str(path)])
    until(lambda: runs() and runs()[0].state == "running")
    (run,) = runs()
    kernel.kill()
    kernel.wait()
    until(lambda: processes.of_run(run.id) == [], timeout_s=8)
    assert attach(run.id).state == "stopped"


def test_the_launcher_is_killed(script, nothing_left):
    run = launch(script(WAIT + "    time.sleep(600)\n"), wait=False, oversubscribe=True)
    until(lambda: run.state == "running")
    os.kill(read_json_lines(run.folder / "launcher.jsonl")[0]["pid"], signal.SIGKILL)
    run.wait()
    assert run.state == "failed" and "launcher was killed by SIGKILL" in run.failure.sentence
    nothing_left(run)


def test_horovods_launcher_cannot_be_loaded(script, monkeypatch, tmp_path, nothing_left):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['horovod.runner.gloo_run'] = None")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = launch(script("pass"), workers=1, check=False)
    assert run.state == "failed" and "before any rank ran" in run.failure.sentence
    assert "import of horovod.runner.gloo_run halted" in run.failure.sentence
    nothing_left(run)


def test_a_run_whose_machine_went_down_is_lost(script):
    run = launch(script("pass"), oversubscribe=True)
    launcher = run.folder / "launcher.jsonl"
    launcher.write_text(launcher.read_text().splitlines()[0] + "\n")
    assert attach(run.id).state == "lost"
