"""The attendees' own check, by command and in a notebook's kernel."""

import os
import signal
import sys
import threading
from functools import partial

import pytest

from ddl import cli
from ddl.grader import check, stopping
from ddl.grader.check import check_file, find_notebook
from ddl.grader.limits import Limits
from doubling import SOLVED, STUBS, write_lesson


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes the lesson into this folder's ``notebooks/``."""
    monkeypatch.chdir(tmp_path)
    return partial(write_lesson, tmp_path)


TOTAL = "points; marking has more tests, and people read the rest\n"


def test_command_when_all_pass(lesson, capsys):
    lesson(SOLVED, "import sys, warnings\nwarnings.warn('x')\nprint('y', file=sys.stderr)")
    assert cli.main(["check", "7"]) == 0
    assert capsys.readouterr().out == (
        "q01_double  passed\nq02_table   passed\n7.Doubling: 2 of 2 questions pass, 4 of 4 " + TOTAL
    )


def test_command_on_an_untouched_lesson(lesson, capsys):
    path = lesson(STUBS)
    assert cli.main(["check", str(path)]) == 1
    assert capsys.readouterr().out == (
        "q01_double  not yet: `double` is still to be written\n"
        "q02_table   not yet: `table` is not defined: the cell that defines it is missing, empty, "
        "or ended with an error\n7.Doubling: 0 of 2 questions pass, 0 of 4 " + TOTAL
    )


def test_a_notebook_shows_names_as_code(lesson):
    html = check_file(lesson(STUBS))._repr_html_()
    assert "not yet: <code>double</code> is still to be written" in html and "`" not in html


def test_command_names_the_cell_that_broke(lesson, capsys):
    lesson(SOLVED | {"q01_double": "import nowhere\ndef double(x):\n    return 2 * x"})
    assert cli.main(["check", "7.Doub"]) == 1
    assert "cell 1 ended with ModuleNotFoundError: No module named 'nowhere'\n" in (capsys.readouterr().out)


def test_cells_run_in_the_notebooks_folder(lesson):
    path = lesson(SOLVED | {"q02_table": "table = eval(open('table.txt').read())"})
    (path.parent / "table.txt").write_text("[1, 4, 9]")
    assert check_file(path).passed


@pytest.mark.parametrize("content, said", [
    (b'{"cells": [', "cannot be read as a notebook"), (b"\xff\xfe\x00", "cannot be read"),
    (b"", "cannot be read"), (b"[]", "cannot be read"), (b"{}", "cannot be read"),
    (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}', "no questions"),
])  # fmt: skip
def test_a_damaged_notebook_is_said_to_be(lesson, capsys, content, said):
    path = lesson(SOLVED)
    path.write_bytes(content)
    assert cli.main(["check", str(path)]) != 0
    error = capsys.readouterr().err
    assert said in error and str(path) in error and error.count("\n") == 1


def test_a_lesson_is_found_by_its_beginning(lesson, tmp_path):
    lesson(SOLVED)
    lesson(SOLVED, name="7")
    lesson(SOLVED, name="8.One")
    lesson(SOLVED, name="8.Other")
    assert find_notebook("7.D").stem == "7.Doubling"
    assert find_notebook("7").stem == "7"
    with pytest.raises(LookupError, match="more than one lesson begins with '8'; there are: "):
        find_notebook("8")
    with pytest.raises(LookupError, match="no lesson begins with '99'; there are: "):
        find_notebook("99")
    with pytest.raises(LookupError, match="there is no notebook 9.ipynb"):
        find_notebook("9.ipynb")


def test_outside_a_notebook_it_says_so():
    from ddl import check

    with pytest.raises(ValueError, match="ddl check LESSON"):
        check("7")


def checked(path, source="", run=(), call_s=5.0):
    """Check a kernel's names: those of `source`, where these cells were run before."""
    names = {"In": ["", *run]}
    exec(source, names)
    return check._check_names(path, names, Limits(call_s=call_s))


CATCHING = "while True:\n        try:\n            x\n        except: pass"
# Python 3.10 looks for signals only within that `try`, for Ctrl-C, too.
LOOPS = ["while True: pass", *([CATCHING] if sys.version_info >= (3, 11) else [])]


@pytest.mark.parametrize("body", LOOPS)
def test_an_endless_loop_is_stopped_and_the_rest_is_checked(lesson, body):
    before = signal.getsignal(signal.SIGALRM)
    found = checked(lesson(SOLVED), f"table = [1, 4, 9]\ndef double(x):\n    {body}", call_s=0.2)
    assert [verdict.passed for verdict in found.verdicts] == [False, True]
    assert found.verdicts[0].message == "double(2) was stopped after 0.2 s: does it come to an end?"
    assert signal.getsignal(signal.SIGALRM) == before and signal.getitimer(signal.ITIMER_REAL)[1] == 0


def test_an_interrupt_ends_a_check(lesson):
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), stopping.interruptible():
        checked(lesson(SOLVED), "def double(x):\n    while True: pass", call_s=60)
    assert signal.getsignal(signal.SIGINT) == before


@pytest.mark.parametrize(
    ("source", "run", "why"),
    [
        ("", [], "its cell was not run yet"),
        (
            "",
            ["%time x = 1", "def double(x):\n    return 2 *\n"],
            "its cell has a syntax error in line 2: invalid syntax",
        ),
        ("double = abs", ["double = abs", "x = 1\ndouble = lambda x 2"], "its cell has a syntax error in line 2: "),
        ("", ["!ls\ndouble = 1 / 0"], "its cell was not run yet, or ended with an error"),
    ],
)
def test_what_is_not_there_is_not_run_yet_or_no_python(lesson, source, run, why):
    message = checked(lesson(SOLVED), source, run).verdicts[0].message
    assert message.startswith(f"`double` is not defined: {why}"), message
