"""A lesson's process after an interrupt of its runner."""

import contextlib
import re
import signal
import subprocess
import sys

import psutil
import pytest

from helpers import ROOT, until


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_ends(tmp_path, number):
    program = (
        "import os, pathlib, signal, sys, lessons, line\n"
        # A shell's background job ignores SIGINT, and so would a test that was started as one.
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, signal.default_int_handler)\n"
        "line.SILENCE_S = 0\n"
        "sleep = ['/bin/sh', '-c', 'echo \"Executing Cell $$---\"; exec sleep 61']\n"
        "lessons.follow(sleep, pathlib.Path('log'), dict(os.environ), line.Line('a', 'b'), 9)"
    )
    outer = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT / "tools")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    with outer:
        shown = next(found for text in outer.stdout if (found := re.search(r"s  cell (\d+) of 9$", text)))
        child = psutil.Process(int(shown[1]))
        outer.send_signal(number)
    assert outer.returncode != 0
    with contextlib.suppress(psutil.NoSuchProcess):  # its parent has already collected it
        until(lambda: child.status() == psutil.STATUS_ZOMBIE, 20)
