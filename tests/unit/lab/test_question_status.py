"""The line below a question's cells."""

from unittest.mock import Mock

import pytest
from IPython.core.interactiveshell import InteractiveShell

from course.lab.question_status import watch

STUB = "raise NotImplementedError()"
DOUBLE = "def double(x):\n    "
WRITTEN = "raise AssertionError('mine.py is still to be written')"
TODO = f"○ question 1: still to be answered, in place of `{STUB}`"
FIRST = "○ question 1: run the cell of your answer first"
PASSED = "✓ question 1: visible tests pass"


def ended(kind):
    return f"✗ question 1: ended with {kind}, which is shown above"


def watched(question):
    """Return a shell that watches a question's two cells: a has the answer, t the test."""
    shell = InteractiveShell()
    roles = {"a": {"grade_id": question, "solution": True}, "t": {"grade_id": f"{question}_test", "grade": True}}
    cells = [{"id": id, "cell_type": "code", "metadata": {"nbgrader": role}} for id, role in roles.items()]
    watch(shell, {"cells": cells})
    return shell


@pytest.mark.parametrize(
    ("answer", "test", "lines", "shown"),
    [
        (DOUBLE + "return 2 * x", "assert double(2) == 4", [PASSED], []),
        (DOUBLE + STUB, "assert double(2) == 4", [TODO], []),
        (STUB, "assert table == 4", [TODO, TODO], []),
        (None, "assert table == 4", [FIRST], []),
        (f"%%writefile mine.py\n{STUB}", WRITTEN, [TODO], []),
        (DOUBLE + "return x", "assert double(2) == 4, 'twice 2 is 4'", ["✗ question 1: twice 2 is 4"], []),
        # An answer with a mistake is shown as usual, even if part of the stub remains.
        (DOUBLE + "return x\n    " + STUB, "assert double(2) == 4", [ended("AssertionError")], ["AssertionError"]),
        (DOUBLE + f"return y\n    {STUB}", "assert double(2) == 4", [ended("NameError")], ["NameError"]),
        (DOUBLE + "return 2 * x", "assert triple(2) == 4", [ended("NameError")], ["NameError"]),
        (DOUBLE + "return [][x]", "assert double(2) == 4", [ended("IndexError")], ["IndexError"]),
    ],
)
def test_question_status_is_one_line(monkeypatch, tmp_path, answer, test, lines, shown):
    monkeypatch.chdir(tmp_path)
    shell = watched("q01_it")
    said, errors = [], []
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, **_: said.append(data["text/plain"]))
    monkeypatch.setattr(shell, "_showtraceback", lambda kind, *_: errors.append(kind.__name__))
    for name, source in (("a", answer), ("t", test)):
        if source:
            shell.run_cell(source, cell_id=name)
    assert (said, errors) == (lines, shown)


def test_open_question_offers_hints(monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "/course/notebooks/1.Gradient-Basics.ipynb")
    monkeypatch.setenv("DDL_VIEW", "live")
    shown, handle = [], Mock()
    monkeypatch.setattr("IPython.display.display", lambda output, **_: shown.append(output) or handle)
    shell = watched("q01_gradients")
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, **_: None)
    shell.run_cell(DOUBLE + STUB, cell_id="a")
    shell.run_cell("assert double(2) == 4", cell_id="t")
    button, empty = shown  # what replaces the second is saved with the notebook
    button.click()
    assert "hint 1 of 3" in repr(*handle.update.call_args.args)
    shell.run_cell(DOUBLE + "return 2 * x", cell_id="a")
    shell.run_cell("assert double(2) == 4", cell_id="t")
    assert shown == [button, empty]  # none where the tests pass


def test_line_of_a_passed_test_is_replaced_when_its_answer_changes(monkeypatch):
    shell, published = watched("q01_it"), []
    monkeypatch.setattr(shell.display_pub, "publish", lambda data, **how: published.append((data["text/plain"], how)))
    for answer in ("x = 1", "x = 1", "x = 2"):
        shell.run_cell(answer, cell_id="a")
        if answer == "x = 1":
            shell.run_cell("assert x == 1", cell_id="t")
    (_, first), (_, second), *replaced = published
    assert first["transient"] != second["transient"] and not first["update"]
    assert [text[0] for text, _ in replaced] == ["○", "○"]
    assert [how for _, how in replaced] == [{**how, "update": True} for how in (first, second)]
