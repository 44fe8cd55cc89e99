"""Runs do not depend on what the launching process hands down, and their ranks end as a plain run does."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from ddl import attach, launch, runs
from ddl.follow import processes
from helpers import until

LAUNCH = (
    "from ddl import launch; run = launch({script!r}, workers=1, check=False, warm={warm}, timeout_s=60, **{options})\n"
)


@pytest.fixture
def plain(tmp_path):
    """Return a function that launches one rank of a script from a fresh process; it returns the ended process."""

    def run(text, before="", after="", warm=False, cwd=None, preexec=None, environment=(), **options):
        path = tmp_path / "plain" / "train.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))
        code = f"{before}\n{LAUNCH.format(script=str(path), warm=warm, options=options)}\n{after}"
        environment = {**os.environ, **dict(environment)}
        options = dict(capture_output=True, text=True, errors="replace", cwd=cwd, env=environment, timeout=120)
        return subprocess.run([sys.executable, "-c", code], preexec_fn=preexec, **options)

    return run


@pytest.mark.parametrize("warm", [False, True])
def test_ignored_ends_of_children_hide_no_failure(plain, warm):
    plain("import sys; sys.exit(3)", preexec=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), warm=warm)
    assert (runs()[-1].state, runs()[-1].status) == ("failed", 3)


def test_blocked_signals_do_not_delay_a_stop(plain):
    blocked = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])"
    script = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])), flush=True)"
    plain(script, before=blocked)
    assert "SIGTERM" not in runs()[-1].logs()


@pytest.mark.parametrize("warm", [False, True])
def test_finalizers_and_exit_handlers_use_their_imports(plain, warm):
    """A rank that has failed runs its slow handlers as well."""
    plain(
        """
        import atexit, json, os, time
        class Writer:
            def __del__(self): os.write(1, json.dumps({"finalized": 1}).encode() + b"\\n")
        kept = Writer()
        atexit.register(lambda: (time.sleep(2.5), print("exit handler ran", flush=True)))
        raise ValueError("bad")
        """,
        warm=warm,
    )
    assert runs()[-1].state == "failed"
    assert '"finalized": 1' in runs()[-1].logs() and "exit handler ran" in runs()[-1].logs()


def test_a_handler_of_sigterm_has_time_to_save(script):
    path = script(
        """
        import signal, sys, time
        def save(*_):
            time.sleep(2.5)
            print("saved", flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("armed", flush=True)
        time.sleep(600)
        """
    )
    run = launch(path, workers=1, wait=False, check=False, warm=False)
    until(lambda: "armed" in (run.logs() if (run.folder / "rank-0.log").exists() else ""))
    run.stop()
    assert run.state == "stopped" and "saved" in run.logs()


def test_files_in_the_working_folder_hide_nothing_of_the_launcher(plain, tmp_path):
    for name in ("json", "queue", "signal", "platform"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('hidden')")
    # The launching process itself is one that does not look there, as `ddl run` is.
    done = plain(
        "import os; print(os.environ.get('PYTHONSAFEPATH'))", cwd=tmp_path, environment={"PYTHONSAFEPATH": "1"}.items()
    )
    assert runs()[-1].state == "done", done.stderr
    before = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    command = [Path(sys.executable).with_name("ddl"), "run", "-n", "1", tmp_path / "plain" / "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=before, capture_output=True, text=True)
    assert done.returncode == 0 and runs()[-1].logs() == "None\n", done.stdout  # the script sees nothing of it


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_our_characters_changes_no_status(plain, encoding):
    plain("print('fine')")
    command = [Path(sys.executable).with_name("ddl"), "list"]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": encoding}, capture_output=True)
    assert done.returncode == 0 and b"train done" in done.stdout
    done = plain("print('fine')", environment={"PYTHONIOENCODING": encoding, "DDL_VIEW": "plain"}.items())
    assert done.returncode == 0 and "train done" in done.stdout


def test_a_closed_output_ends_no_run(plain):
    before = "import os, sys; os.close(1); sys.stdout = None"
    assert plain("print('fine')", before=before).returncode == 0
    assert runs()[-1].state == "done"


def test_a_run_leaves_no_file_open(plain):
    strict = "import warnings; warnings.simplefilter('always')"
    ended = plain("", before=strict, after="del run; import gc; gc.collect()")
    assert runs()[-1].state == "done" and "ResourceWarning" not in ended.stderr


def test_threads_that_a_user_has_chosen_stay(script):
    path = script("import os; print(os.environ['OMP_NUM_THREADS'], os.environ['TF_NUM_INTRAOP_THREADS'])")
    run = launch(path, workers=1, threads=2, warm=False, env={"OMP_NUM_THREADS": "1"})
    assert run.logs().split() == ["1", "2"]


def test_an_error_while_a_run_is_shown_stops_it(script, monkeypatch):
    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ddl.display.view.PlainView.update", broken)
    with pytest.raises(OSError, match="No space"):
        launch(script("import time; time.sleep(600)"), workers=1, warm=False)
    assert runs()[-1].state == "stopped"


def test_a_killed_launcher_with_a_forked_child_takes_its_run_along(plain):
    after = "import os, time\nif not os.fork(): os.setsid(); os.closerange(1, 3); time.sleep(30); os._exit(0)\nos.kill(os.getpid(), 9)"
    command = plain("import time; time.sleep(600)", wait=False, after=after)
    assert command.returncode == -signal.SIGKILL
    run = runs()[-1]
    until(lambda: not processes.of_run(run.id), 20)
    assert attach(run.id).state == "stopped"


def test_a_queue_that_cannot_be_used_is_named(script, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DDL_QUEUE", str(tmp_path / "file"))
    run = launch(script("print(1)"), workers=1, warm=False, check=False)
    assert run.state == "failed" and "DDL_QUEUE" in run.failure.sentence


def test_a_package_that_pythonpath_hides_is_named(script, tmp_path, monkeypatch):
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy/__init__.py").write_text("raise ImportError('built for another Python')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    run = launch(script("import numpy"), workers=1, warm=False, check=False)
    assert f"the numpy in {tmp_path}" in run.failure.advice


def test_horovod_does_not_need_the_hosts_own_name(tmp_path):
    """A laptop or a container without a network may have a name that nothing knows."""
    launch_two = [Path(sys.executable).with_name("ddl"), "run", "-n", "2", "--oversubscribe", "hello.py"]
    unnamed = ["unshare", "--uts", "sh", "-c", 'hostname a.b.invalid && exec "$@"', "-", *map(str, launch_two)]
    done = subprocess.run(unnamed, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "hello done" in done.stdout, done.stdout
