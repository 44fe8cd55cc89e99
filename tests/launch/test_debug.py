"""A rank with a terminal, and ranks without one."""

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from ddl import launch
from ddl.records.jsonfiles import read_json

ASKS = """
import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()
answer = input("how many? ") if hvd.rank() == 1 else "0"
total = hvd.allreduce(tf.constant(float(answer)), op=hvd.Sum)
print("total", float(total), flush=True)
secret = 6 * 7
if hvd.rank() == 1:
    breakpoint()
assert hvd.rank() == 0, "on purpose"
"""


class Terminal:
    """A command in a pseudo-terminal."""

    def __init__(self, command, **options):
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, **options)
        os.close(theirs)
        self.text = ""

    def expect(self, text, timeout_s=60):
        """Read until the terminal has shown a text; return and forget everything up to it."""
        deadline = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self._ours], [], [], 0.2)[0]:
                self.text += os.read(self._ours, 1 << 16).decode(errors="replace")
        before, _, self.text = self.text.partition(text)
        return before

    def type(self, line):
        os.write(self._ours, f"{line}\n".encode())


def test_debugged_rank_has_the_terminal_and_a_post_mortem(script, nothing_left):
    command = [sys.executable, "-m", "ddl.cli", "run", "-n", "2", "--oversubscribe", "--debug", "1", script(ASKS)]
    terminal = Terminal(list(map(str, command)))
    terminal.expect("how many? ")
    terminal.type("5")
    terminal.expect("total 5.0")
    terminal.expect("(Pdb) ")
    terminal.type("print(secret)")
    terminal.expect("42")
    terminal.type("c")
    terminal.expect("AssertionError: on purpose")
    terminal.expect("(Pdb) ")
    terminal.type("print('rank', hvd.rank())")
    terminal.expect("rank 1")
    terminal.type("q")
    terminal.expect("raised AssertionError")
    assert terminal.process.wait(30) == 1


@pytest.mark.parametrize("call, error", [("breakpoint()", "NoKeyboard"), ("input()", "EOFError")])
def test_rank_without_a_terminal_says_how_to_get_one(script, call, error):
    run = launch(
        script(f"import os\nif os.environ['HOROVOD_RANK'] == '1':\n    {call}"), oversubscribe=True, check=False
    )
    assert run.failure.type == error and run.failure.rank == 1
    assert "ddl run --debug 1" in run.failure.message + run.failure.advice


# ---------------------------------------------------------------- modules

MODULE = """
import sys
from .model import answer
print(__name__, __package__, sys.argv[1:], answer, flush=True)
"""


@pytest.fixture
def package(script, monkeypatch):
    folder = script(MODULE, "mypkg/train.py").parent
    script("answer = 42", "mypkg/model.py")
    script("", "mypkg/__init__.py")
    monkeypatch.chdir(folder.parent)
    return folder


@pytest.mark.parametrize("warm", [True, False])
def test_module_runs_as_with_python_m(package, warm):
    run = launch("-m mypkg.train", workers=1, args=["--epochs", 2], warm=warm)
    assert run.logs() == "__main__ mypkg ['--epochs', '2'] 42\n" and run.name == "train"
    assert run.job["shell_line"].endswith("-m mypkg.train --epochs 2")


def test_plot_is_the_same_from_a_notebook(script, monkeypatch, tmp_path):
    """Kernels set MPLBACKEND to their own backend."""
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    prints = script("import os; print(os.environ.get('MPLBACKEND'))")
    assert launch(prints, workers=1).logs() == "None\n"
    assert launch(prints, workers=1, env={"MPLBACKEND": "agg"}).logs() == "agg\n"
    assert read_json(launch(prints, workers=1).folder / "job.json")["env"] == []
