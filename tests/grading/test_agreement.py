"""An attendee's check and marking run the same cells in the same order after any edit."""

import copy
import json

import nbformat
import pytest

import lessons
from course.grader import cells
from course.lab.check import check_file
from marking import answers

SETUP = "import math\n\nscale = 2"
SHOWS = (
    "import statistics as st\nfrom collections import Counter\n\nhalf = 0.5\n"
    "points = [float(n) for n in range(4)]\n\n\ndef twice(x):\n    return 2 * x"
)
MEAN = "def mean(values):\n    return sum(values) / len(values)"
SPREAD = "def spread(values):\n    return max(values) - min(values)"
TABLE = "table = [1, 4, 9]"
ANSWERS = (MEAN, SPREAD, TABLE)
TESTS = {
    "q1": "assert mean([1, 3]) == 2\ntry:\n    mean([])\nexcept (ValueError, ZeroDivisionError):\n"
    "    pass\nelse:\n    raise AssertionError('none')",
    "q2": "assert spread([1, 5]) == 4",
    "q3": "assert list(table) == [1, 4, 9]",
}


def changed(change):
    """A lesson of three questions as it is released, and a solved one with a change."""

    def graded(name, source, **about):
        return nbformat.v4.new_code_cell(
            source, metadata={"nbgrader": {"grade_id": name, "schema_version": 3, "task": False, **about}}
        )

    cells = [nbformat.v4.new_code_cell(SETUP), nbformat.v4.new_code_cell(SHOWS, metadata={"tags": ["demo"]})]
    for (name, test), answer in zip(TESTS.items(), ANSWERS, strict=True):
        cells += [
            graded(name, f"### BEGIN SOLUTION\n{answer}\n### END SOLUTION", grade=False, locked=False, solution=True),
            graded(f"{name}_test", test, grade=True, locked=True, solution=False, points=1),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    released = lessons.release(nbformat.v4.new_notebook(cells=cells))
    notebook = copy.deepcopy(released)
    for cell, answer in zip(notebook.cells[2::2], ANSWERS, strict=True):
        cell.source = answer
    change(notebook.cells)
    return released, notebook


def uses_a_definition_of_a_demo_cell(cells):
    cells[2].source = "def mean(values):\n    return twice(sum(values)) * half / len(values)"


def uses_a_value_of_a_demo_cell(cells):
    cells[2].source = "def mean(values):\n    return len(points) and sum(values) / len(values)"


def has_a_helper_below_its_test(cells):
    cells[2].source = "def mean(values):\n    return total(values) / len(values)"
    cells.append(nbformat.v4.new_code_cell("def total(values):\n    return sum(values)"))


def is_split(cells):
    """JupyterLab gives each part the metadata."""
    cells[2].source = "def helper(x):\n    return sum(x)"
    source = "def mean(values):\n    return helper(values) / len(values)"
    cells.insert(3, nbformat.v4.new_code_cell(source, metadata=copy.deepcopy(cells[2].metadata)))


def holds_two_answers(cells):
    cells[2].source = f"{MEAN}\n\n{SPREAD}"
    del cells[4]


def is_merged_with_its_test(cells):
    cells[2].source += f"\n\n{cells.pop(3).source}"


def is_deleted(cells):
    del cells[2]


def has_its_test_made_text(cells):
    cells[3] = nbformat.v4.new_raw_cell(cells[3].source, metadata=cells[3].metadata)


COUNTS = {  # whether the changed answer passes
    uses_a_definition_of_a_demo_cell: True,
    uses_a_value_of_a_demo_cell: False,
    has_a_helper_below_its_test: False,
}
CHANGES = [*COUNTS, is_split, holds_two_answers, is_merged_with_its_test, is_deleted, has_its_test_made_text]


def steps(notebook):
    """Return what runs in a notebook, in order: the text of code, and ids of tests."""
    codes, tests = cells.code_cells(notebook), cells.test_cells(notebook)
    return [tests[place][0] if place in tests else codes[place].strip() for place in sorted(codes | tests)]


@pytest.mark.parametrize("change", CHANGES)
def test_check_runs_the_same_cells_as_marking(change):
    released, notebook = changed(change)
    text = nbformat.writes(notebook)
    marked, _ = answers.answered(released, answers.cells(text.encode()))
    checked, _ = cells.as_answered(json.loads(text))
    put_back = [test for test in steps(marked) if test not in steps(checked)]
    assert [step for step in steps(marked) if step not in put_back] == steps(checked)


@pytest.mark.parametrize("change, counts", COUNTS.items())
def test_only_definitions_of_demo_cells_count(change, counts, tmp_path):
    _, notebook = changed(change)
    nbformat.write(notebook, tmp_path / "1.Agreed.ipynb")
    found = check_file(tmp_path / "1.Agreed.ipynb").verdicts
    assert [verdict.passed for verdict in found] == [counts, True, True]
