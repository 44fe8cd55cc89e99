"""The line that a long command shows, and what becomes of the command."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import line
from helpers import until
from line import CommandError, Line

TOOLS = Path(line.__file__).parent


def test_a_failing_command_is_told_with_its_log_and_last_lines(tmp_path):
    log = tmp_path / "logs" / "step.log"
    program = "for n in $(seq 40); do echo line $n; done; printf '\\377 bytes\\n'; exit 7"
    with pytest.raises(CommandError) as error:
        Line("set-up", "step").run(["/bin/sh", "-c", program], log, os.environ)
    text = str(error.value)
    assert "step failed (exit code 7)" in text and str(log) in text
    assert "line 40" in text and "line 20" not in text
    assert "line 1\n" in log.read_text(errors="replace")


def test_a_long_command_keeps_saying_where_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(line, "SILENCE_S", 0)
    monkeypatch.setattr(line, "POLL_S", 0.02)
    program = "echo '[ 23%] Building'; echo g++ -c x.cc; until [ -e go ]; do sleep 0.02; done"
    step, shown = Line("set-up", "horovod"), []

    def show(detail, show=step.show):
        show(detail)
        shown.append(detail)
        if shown.count("[ 23%] Building") == 2:
            (tmp_path / "go").touch()

    monkeypatch.setattr(step, "show", show)
    step.run(["/bin/sh", "-c", program], tmp_path / "log", os.environ, cwd=tmp_path)
    step.end("compiled")
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "set-up  horovod …" and all(text.startswith("set-up  horovod") for text in lines)
    assert sum(text.endswith("s  [ 23%] Building") for text in lines) >= 2
    assert lines[-1].endswith("s  compiled")


def test_one_line_is_redrawn_in_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    step = Line("set-up", "data")
    step.show("x" * 100)
    step.end()
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1 and printed.count("\r\033[K") == 3
    assert max(len(part) for part in printed.split("\r\033[K")) < 40


def test_progress_that_is_redrawn_shows_its_last_state(tmp_path):
    (tmp_path / "log").write_bytes(b"10 %\r20 %\r30 %\xff\r")
    assert line.latest(tmp_path / "log") == "30 %\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends_with_all_it_started(tmp_path, number):
    program = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1]); from line import Line\n"
        "from pathlib import Path\n"
        # A shell's background job ignores SIGINT, and so would a test that was started as one.
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.default_int_handler)\n"
        "Line('a', 'b').run(['/bin/sh', '-c', 'sleep 61 & echo $!; wait'], Path('log'), os.environ)"
    )
    outer = subprocess.Popen([sys.executable, "-c", program, TOOLS], cwd=tmp_path, stderr=subprocess.DEVNULL)
    log = tmp_path / "log"
    until(lambda: log.exists() and re.search(r"\n\d+\n", log.read_text()), 20)
    child = psutil.Process(int(log.read_text().split()[-1]))
    outer.send_signal(number)
    assert outer.wait(timeout=20) != 0
    with contextlib.suppress(psutil.NoSuchProcess):  # whoever ought to collect it has done so
        until(lambda: child.status() == psutil.STATUS_ZOMBIE, 20)


def test_an_interrupt_while_a_command_starts_ends_it(tmp_path, monkeypatch):
    """As one that arrives before `Popen` has returned does."""
    started, begin = [], subprocess.Popen

    def interrupted(*arguments, **options):
        started.append(begin(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Line("a", "b").run(["sleep", "61"], tmp_path / "log", os.environ)
    finally:
        signal.signal(signal.SIGINT, before)
    assert started[0].returncode == -signal.SIGTERM
