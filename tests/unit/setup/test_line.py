"""Lessons' processes after an interrupt of their runner."""

import signal
import subprocess
import sys

import psutil
import pytest

from helpers import ROOT, until

LESSON = """\
# %% tags=["parameters"]
size = "reader"

# %%
import time

time.sleep(600)
"""


@pytest.mark.slow("tools/lessons.py")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_of_lessons_ends(tmp_path, number):
    for name in ("1.One", "2.Two"):
        (tmp_path / "lessons").mkdir(exist_ok=True)
        (tmp_path / f"lessons/{name}.py").write_text(LESSON)
    program = (
        "import pathlib, signal, sys, lessons\n"
        # A shell's background job ignores SIGINT, and so would a test that was started as one.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.exit(lessons.main(['run', '--together', '2'], pathlib.Path()))"
    )
    outer = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": str(ROOT / "tools"), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with outer:
        logs = [tmp_path / f"build/{name}.log" for name in ("1.One", "2.Two")]
        until(lambda: all(log.exists() and "Executing Cell 3" in log.read_text() for log in logs))
        inside = psutil.Process(outer.pid).children(recursive=True)
        outer.send_signal(number)
    assert outer.returncode == 130 and len(inside) >= 4  # two of papermill, two kernels
    until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in inside), 20)
