"""Hints, one step at a time."""

from types import SimpleNamespace

import pytest

from course import hint
from course.grader.cells import code_cells
from course.lab import attendee, hints
from ddl import cli

LESSON = "1b.Gradients-in-Depth"
STEPS = hints.steps_of(LESSON)["q05_table"]


@pytest.fixture(autouse=True)
def new_kernel(monkeypatch):
    monkeypatch.setattr(hints, "_asked", set())


def test_each_call_gives_one_more_hint(capsys):
    taken = [hint("q05", "1b") for _ in range(4)]
    assert [list(each.steps) for each in taken] == [STEPS[:1], STEPS[:2], STEPS, STEPS]
    assert attendee.hints_taken(LESSON) == {"q05_table": 3}
    assert cli.main(["hint", "1b", "q02"]) == 0
    assert capsys.readouterr().out.startswith("Question 2, hint 1 of 3:\n1. ")


def test_hint_finds_the_lesson_of_its_notebook(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", f"/course/notebooks/{LESSON}.fresh.ipynb")
    page = hint("q05")._repr_html_()
    assert "Question 5, hint 1 of 3" in page and "<code>noisy</code>" in page
    monkeypatch.delenv("JPY_SESSION_NAME")
    with pytest.raises(ValueError, match="which lesson this is"):
        hint("q05")


def test_hint_finds_the_lesson_in_vscode(monkeypatch):
    shell = SimpleNamespace(user_ns={"__vsc_ipynb_file__": f"/home/someone/{LESSON}.ipynb"})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert hint("q05").steps == (STEPS[0],)


def test_hint_shows_emphasis():
    shown = hints.Hint("q01_convert", ("do it *before* `step(*args, *rest)` and 2 * 3 * 4",), 1)._repr_html_()
    assert "<em>before</em>" in shown and shown.count("<em>") == 1


def test_restart_gives_no_extra_hint(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", f"/course/notebooks/{LESSON}.ipynb")
    assert [len(hint("q05").steps) for _ in range(2)] == [1, 2]
    monkeypatch.setattr(hints, "_asked", set())  # as a new kernel has it
    assert [len(hint("q05").steps) for _ in range(2)] == [2, 3]
    assert len(hint("q07").steps) == 1


def test_marking_runs_no_hint():
    sources = ['hint("q05")', 'from course import hint\nhint("q05")', 'x = 1\nhint("q05")\ny = 2']
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    assert code_cells({"cells": cells}) == {2: "x = 1\n\ny = 2"}
