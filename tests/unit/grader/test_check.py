"""The attendees' own check, by command and in a notebook's kernel."""

from functools import partial

import pytest

from ddl import cli
from ddl.grader.check import check_file, find_notebook
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
