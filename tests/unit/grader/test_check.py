"""The attendees' own check, by command and in a notebook's kernel."""

import os

import nbformat
import pytest
from nbformat import v4

from ddl import cli
from ddl.grader.check import check_file, find_notebook

SOLVED = {"q01_double": "def double(x):\n    return 2 * x", "q02_table": "table = [1, 4, 9]"}
STUBS = {"q01_double": "def double(x):\n    raise NotImplementedError()", "q02_table": "raise NotImplementedError()"}
TESTS = {"q01_double": "assert double(2) == 4", "q02_table": "assert table == [1, 4, 9]"}


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes a lesson's notebook into this folder's ``notebooks/``."""
    monkeypatch.chdir(tmp_path)

    def write(answers, *more, name="7.Doubling", first=()):
        cells = [*map(v4.new_code_cell, first)]
        for question, test in TESTS.items():
            cells.append(v4.new_code_cell(answers[question]))
            about = {
                "grade_id": f"{question}_test",
                "grade": True,
                "solution": False,
                "points": 2,
                "locked": True,
                "schema_version": 3,
            }
            cells.append(v4.new_code_cell(test, metadata={"nbgrader": about, "tags": ["raises-exception"]}))
        cells += map(v4.new_code_cell, more)
        path = tmp_path / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(v4.new_notebook(cells=cells), path)
        return path

    return write


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


@pytest.fixture
def ran():
    """Return a function that runs a notebook in a real kernel; gives all that it printed."""

    def run(path, **environment):
        from jupyter_client.manager import KernelManager
        from nbclient import NotebookClient

        notebook = nbformat.read(path, as_version=4)
        manager = KernelManager(kernel_name="python3")
        client = NotebookClient(
            notebook, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
        )
        client.execute(env=os.environ | environment)
        return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("call", ["check()", "check('7')"])
def test_in_a_kernel_it_prints(lesson, ran, call):
    # What counts is what has been run in this kernel, not what is saved.
    path = lesson(STUBS, "def double(x):\n    print('loud')\n    return 2 * x", f"from ddl import check\n{call}")
    printed = ran(path)
    assert "q01_double  passed\nq02_table   not yet: `table` is not defined" in printed
    assert "loud" not in printed


@pytest.mark.slow
def test_in_jupyterlab_it_shows_a_button(lesson, ran):
    press = """
from ipywidgets import HTML, Button
from ipywidgets.widgets.widget import _instances
button, = (widget for widget in _instances.values() if isinstance(widget, Button))
shown, = (widget for widget in _instances.values() if isinstance(widget, HTML))
print([button.description, shown.value])
button.click()
print([button.description, button.disabled], shown.value)
"""
    path = lesson(SOLVED | {"q02_table": "table = [1, 4, '<b>']"}, "from ddl import check\ncheck()", press)
    printed = ran(path, DDL_VIEW="live", JPY_SESSION_NAME=str(path))
    assert "['Check my answers', '']" in printed
    assert "['Check my answers', False]" in printed
    assert "passed" in printed and "1 of 2 questions pass" in printed
    assert "&#x27;&lt;b&gt;&#x27;" in printed and "'<b>'" not in printed


def test_outside_a_notebook_it_says_so():
    from ddl import check

    with pytest.raises(ValueError, match="ddl check LESSON"):
        check("7")
