"""An attendee's check and marking run the same cells in the same order, whatever was done to them."""

import copy
import json

import nbformat
import pytest

from course.grader import cells
from course.grader.check import check_file
from marking import answers

SETUP = "import math\n\nscale = 2"
SHOWS = (
    "import statistics as st\nfrom collections import Counter\n\nhalf = 0.5\n"
    "points = [float(n) for n in range(4)]\n\n\ndef twice(x):\n    return 2 * x"
)
MEAN = "def mean(values):\n    return sum(values) / len(values)"
SPREAD = "def spread(values):\n    return max(values) - min(values)"
TABLE = "table = [1, 4, 9]"
STUB = "raise NotImplementedError()"
TESTS = {
    "q1": "assert mean([1, 3]) == 2\ntry:\n    mean([])\nexcept (ValueError, ZeroDivisionError):\n"
    "    pass\nelse:\n    raise AssertionError('none')",
    "q2": "assert spread([1, 5]) == 4",
    "q3": "assert list(table) == [1, 4, 9]",
}


def lesson(*answered):
    """A lesson of three questions, and what somebody has answered."""
    import lessons

    def graded(name, source, **about):
        return nbformat.v4.new_code_cell(
            source, metadata={"nbgrader": {"grade_id": name, "schema_version": 3, "task": False, **about}}
        )

    cells = [nbformat.v4.new_code_cell(SETUP), nbformat.v4.new_code_cell(SHOWS, metadata={"tags": ["demo"]})]
    for (name, test), answer in zip(TESTS.items(), answered, strict=True):
        cells += [
            graded(name, f"### BEGIN SOLUTION\n{answer}\n### END SOLUTION", grade=False, locked=False, solution=True),
            graded(f"{name}_test", test, grade=True, locked=True, solution=False, points=1),
        ]
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    released = lessons.release(nbformat.v4.new_notebook(cells=cells))
    notebook = copy.deepcopy(released)
    for cell, answer in zip(notebook.cells[2::2], answered, strict=True):
        cell.source = answer
    return released, notebook


def own(source, **metadata):
    return nbformat.v4.new_code_cell(source, metadata=metadata)


def split(notebook, place, *sources, keep=True):
    """Split a cell as JupyterLab does (`keep`: its metadata), or another editor."""
    parts = [own(source, **(copy.deepcopy(notebook.cells[place].metadata) if keep else {})) for source in sources]
    notebook.cells[place : place + 1] = parts


def merge(notebook, place, into):
    """Merge two neighbours, one of which keeps its metadata."""
    first, second = sorted((place, into))
    source = f"{notebook.cells[first].source}\n\n{notebook.cells[second].source}"
    notebook.cells[into].source = source
    notebook.cells.pop(place)


def setup_split(notebook):
    split(notebook, 0, "import math", "scale = 3")
    notebook.cells[-2].source = "table = [1, 1 + scale, math.floor(9.5)]"


def answer_that_uses_the_course(notebook):
    notebook.cells[0].source += "\nfrom ddl import paired\n\nscale = paired({1: 0}, {1: scale}).mean"
    notebook.cells[
        2
    ].source = (
        "def mean(values):\n    return paired(dict.fromkeys(range(len(values)), 0), dict(enumerate(values))).mean"
    )


def definitions_from_a_cell_that_shows(notebook):
    notebook.cells[2].source = "def mean(values):\n    return twice(sum(values)) * half / len(values)"


def import_added_to_a_cell_that_shows(notebook):
    notebook.cells[1].source += "\nfrom statistics import fmean"
    notebook.cells[2].source = "def mean(values):\n    return fmean(values)"


def value_from_a_cell_that_shows(notebook):
    notebook.cells[2].source = "def mean(values):\n    return len(points) and sum(values) / len(values)"


def copy_of_a_cell_that_shows(notebook):
    notebook.cells.insert(2, own(f"{SHOWS}\nraise RuntimeError", tags=["demo"]))


def answer_merged_into_a_cell_that_shows(notebook):
    merge(notebook, 2, into=1)


def answer_split(notebook):
    notebook.cells[2].source = "def helper(x):\n    return sum(x)"
    split(
        notebook, 2, "def helper(x):\n    return sum(x)", "def mean(values):\n    return helper(values) / len(values)"
    )


def answer_split_elsewhere(notebook):
    split(notebook, 2, "n = 1", MEAN, keep=False)


def two_answers_in_one_cell(notebook):
    notebook.cells[2].source += f"\n\n{SPREAD}"
    notebook.cells.pop(4)


def answer_merged_with_its_test(notebook):
    merge(notebook, 3, into=2)


def answer_merged_into_its_test(notebook):
    merge(notebook, 2, into=3)


def answer_there_twice_the_last_right(notebook):
    split(notebook, 2, "def mean(values):\n    return 0", MEAN)


def answer_there_twice_the_last_wrong(notebook):
    split(notebook, 2, MEAN, "def mean(values):\n    return 0")


def answer_moved_up(notebook):
    notebook.cells.insert(0, notebook.cells.pop(6))


def answer_deleted(notebook):
    notebook.cells.pop(2)


def answer_made_text(notebook):
    cell = notebook.cells[2]
    notebook.cells[2] = nbformat.v4.new_markdown_cell(cell.source, metadata=cell.metadata)


def answer_without_its_metadata(notebook):
    for cell in notebook.cells[2::2]:
        cell.metadata = {}


def copied_test(notebook):
    second = copy.deepcopy(notebook.cells[3])
    second.source, second.id = "pass", "copied"
    notebook.cells.append(second)


def ids_lost(notebook):
    for number, cell in enumerate(notebook.cells):
        cell.id = f"other-{number}"


def magics(notebook):
    notebook.cells.insert(0, own("%matplotlib inline\nimport math"))


def merged_with_the_next_answer(notebook):
    merge(notebook, 4, into=3)


def import_in_a_test(notebook):
    notebook.cells[3].source = f"import statistics\n\n{notebook.cells[3].source}"
    notebook.cells[4].source = "def spread(values):\n    assert statistics\n    return max(values) - min(values)"


def moved_up_tests(notebook):
    notebook.cells[2:] = [*notebook.cells[3::2], *notebook.cells[2::2]]


def answers_moved_down(notebook):
    notebook.cells[2:] = [*notebook.cells[3::2], *reversed(notebook.cells[2::2])]


def a_test_made_text(notebook):
    cell = notebook.cells[3]
    notebook.cells[3] = nbformat.v4.new_raw_cell(cell.source, metadata=cell.metadata)


def helper_below_its_test(notebook):
    notebook.cells[2].source = "def mean(values):\n    return total(values) / len(values)"
    notebook.cells.append(own("def total(values):\n    return sum(values)"))


CHANGES = [
    setup_split, definitions_from_a_cell_that_shows, import_added_to_a_cell_that_shows, value_from_a_cell_that_shows,
    copy_of_a_cell_that_shows, answer_merged_into_a_cell_that_shows, answer_split, answer_split_elsewhere,
    two_answers_in_one_cell, answer_merged_with_its_test, answer_merged_into_its_test,
    answer_there_twice_the_last_right, answer_there_twice_the_last_wrong, answer_deleted, answer_made_text,
    answer_without_its_metadata, copied_test, ids_lost, magics, merged_with_the_next_answer, import_in_a_test,
    moved_up_tests, answers_moved_down, a_test_made_text, helper_below_its_test,
]  # fmt: skip
# What a cell shows, the course's functions and a helper below do not count; definitions do.
FIRST_WRONG = [value_from_a_cell_that_shows, answer_that_uses_the_course, helper_below_its_test]
RIGHT = [answer_moved_up, definitions_from_a_cell_that_shows, answer_merged_into_its_test]


def steps(notebook):
    """What is run of a notebook, in order: the text of code, and tests by their ids."""
    codes, tests = cells.code_cells(notebook), cells.test_cells(notebook)
    return [tests[place][0] if place in tests else codes[place].strip() for place in sorted(codes | tests)]


@pytest.mark.parametrize("change", CHANGES)
def test_a_check_runs_what_marking_runs(change):
    released, notebook = lesson(MEAN, SPREAD, TABLE)
    change(notebook)
    text = nbformat.writes(notebook)
    marked, _ = answers.answered(released, answers.cells(text.encode()))
    checked, _ = cells.as_answered(json.loads(text))
    put_back = [test for test in steps(marked) if test not in steps(checked)]
    assert [step for step in steps(marked) if step not in put_back] == steps(checked)


@pytest.mark.parametrize("change", [*RIGHT, *FIRST_WRONG])
def test_what_counts_of_it(change, tmp_path, monkeypatch):
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "runs"))
    _, notebook = lesson(MEAN, SPREAD, TABLE)
    change(notebook)
    nbformat.write(notebook, tmp_path / "1.Agreed.ipynb")
    found = check_file(tmp_path / "1.Agreed.ipynb").verdicts
    assert [verdict.passed for verdict in found] == [change in RIGHT, True, True]
