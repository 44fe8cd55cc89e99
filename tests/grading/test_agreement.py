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


def changed(changes):
    """A lesson of three questions as it is released, and a solved one with changes."""

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
    for change in changes:
        change(notebook)
    return released, notebook


def own(source, **metadata):
    return nbformat.v4.new_code_cell(source, metadata=metadata)


# Edits of a notebook: each returns a function that applies it.


def becomes(place, source):
    return lambda notebook: notebook.cells[place].update(source=source)


def split(place, *sources):
    """Split a cell as JupyterLab does, which gives each part the metadata."""

    def change(notebook):
        metadata = notebook.cells[place].metadata
        notebook.cells[place : place + 1] = [own(source, **copy.deepcopy(metadata)) for source in sources]

    return change


def merge(place, into):
    """Merge two neighbors, one of which keeps its metadata."""
    first, second = sorted((place, into))

    def change(notebook):
        notebook.cells[into].source = f"{notebook.cells[first].source}\n\n{notebook.cells[second].source}"
        notebook.cells.pop(place)

    return change


def insert(place, source, **metadata):
    return lambda notebook: notebook.cells.insert(place, own(source, **metadata))


def made(place, kind):
    def change(notebook):
        cell = notebook.cells[place]
        notebook.cells[place] = kind(cell.source, metadata=cell.metadata)

    return change


def arranged(order):
    return lambda notebook: notebook.cells.__setitem__(slice(None), order(notebook.cells))


SHOWN_MEAN = "def mean(values):\n    return twice(sum(values)) * half / len(values)"
CHANGES = {
    "definitions from a cell that shows": [becomes(2, SHOWN_MEAN)],
    "a value from a cell that shows": [
        becomes(2, "def mean(values):\n    return len(points) and sum(values) / len(values)")
    ],
    "an answer split": [
        split(2, "def helper(x):\n    return sum(x)", "def mean(values):\n    return helper(values) / len(values)")
    ],
    "two answers in one cell": [becomes(2, f"{MEAN}\n\n{SPREAD}"), arranged(lambda cells: cells[:4] + cells[5:])],
    "an answer merged with its test": [merge(3, into=2)],
    "an answer deleted": [arranged(lambda cells: cells[:2] + cells[3:])],
    "a test made text": [made(3, nbformat.v4.new_raw_cell)],
    "a helper below its test": [
        becomes(2, "def mean(values):\n    return total(values) / len(values)"),
        insert(8, "def total(values):\n    return sum(values)"),
    ],
}  # fmt: skip
# Definitions count; values of a demo cell and a helper below its test don't.
COUNTS = [
    (CHANGES["definitions from a cell that shows"], True),
    (CHANGES["a value from a cell that shows"], False),
    (CHANGES["a helper below its test"], False),
]


def steps(notebook):
    """Return what runs in a notebook, in order: the text of code, and ids of tests."""
    codes, tests = cells.code_cells(notebook), cells.test_cells(notebook)
    return [tests[place][0] if place in tests else codes[place].strip() for place in sorted(codes | tests)]


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_check_runs_the_same_cells_as_marking(changes):
    released, notebook = changed(changes)
    text = nbformat.writes(notebook)
    marked, _ = answers.answered(released, answers.cells(text.encode()))
    checked, _ = cells.as_answered(json.loads(text))
    put_back = [test for test in steps(marked) if test not in steps(checked)]
    assert [step for step in steps(marked) if step not in put_back] == steps(checked)


@pytest.mark.parametrize("changes, counts", COUNTS)
def test_only_definitions_of_demo_cells_count(changes, counts, tmp_path):
    _, notebook = changed(changes)
    nbformat.write(notebook, tmp_path / "1.Agreed.ipynb")
    found = check_file(tmp_path / "1.Agreed.ipynb").verdicts
    assert [verdict.passed for verdict in found] == [counts, True, True]
