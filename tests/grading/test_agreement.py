"""The button, `ddl check` and marking say the same of a hand-in, whatever was done to its cells."""

import copy
import json

import nbformat
import pytest

from ddl.grader import grade_notebook
from ddl.grader.check import _check_names, check_file
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


def setup_edited(notebook):
    notebook.cells[0].source += "\nimport statistics"
    notebook.cells[2].source = "def mean(values):\n    return statistics.mean(values)"


def setup_split(notebook):
    split(notebook, 0, "import math", "scale = 3")
    notebook.cells[-2].source = "table = [1, 1 + scale, math.floor(9.5)]"


def setup_in_a_cell_of_its_own(notebook):
    notebook.cells.insert(3, own("from functools import reduce"))
    notebook.cells[4].source = "def spread(values):\n    return reduce(max, values) - min(values)"


def setup_broken(notebook):
    notebook.cells[0].source = "import no_such_module"
    notebook.cells[2].source = "def mean(values):\n    return math.fsum(values) / len(values)"


def import_from_a_cell_that_shows(notebook):
    notebook.cells[2].source = "def mean(values):\n    return st.mean(values)"


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


def shownmerged(notebook):
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


def own_exception(notebook):
    notebook.cells[2].source = (
        "class Empty(ValueError):\n    pass\n\n\ndef mean(values):\n    if not values:\n"
        "        raise Empty\n    return sum(values) / len(values)"
    )


def a_generator(notebook):
    notebook.cells[-2].source = "table = (n * n for n in range(1, 4))"


def a_fraction_and_text_of_numpy(notebook):
    notebook.cells[0].source += "\nfrom fractions import Fraction\nimport numpy as np"
    notebook.cells[2].source = "def mean(values):\n    return Fraction(sum(values), len(values))"
    notebook.cells[-2].source = "table = np.array([1, 4, 9])"


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


def answer_below_its_test(notebook):
    notebook.cells[2].source = "# below"
    notebook.cells.insert(4, own(MEAN))


def private_value_from_a_cell_that_shows(notebook):
    notebook.cells[1].source += "\n_one = float('1')"
    notebook.cells[2].source = "def mean(values):\n    return _one * sum(values) / len(values)"


def computed_from_what_a_cell_shows(notebook):
    notebook.cells[2].source = f"count = len(points)\n\n\n{MEAN}"


def listed_from_what_a_cell_shows(notebook):
    notebook.cells[2].source = f"doubled = [2 * point for point in points]\n{MEAN}"


def function_that_would_use_what_a_cell_shows(notebook):
    notebook.cells[2].source = f"def unused(p=[x for x in [1]]):\n    return points\n\n\n{MEAN}"


ALL, FIRST_WRONG = {"q1": True, "q2": True, "q3": True}, {"q1": False, "q2": True, "q3": True}
RIGHT = [
    setup_edited,
    setup_split,
    setup_in_a_cell_of_its_own,
    import_from_a_cell_that_shows,
    definitions_from_a_cell_that_shows,
    import_added_to_a_cell_that_shows,
    copy_of_a_cell_that_shows,
    answer_merged_into_a_cell_that_shows,
    answer_split,
    answer_split_elsewhere,
    shownmerged,
    answer_merged_with_its_test,
    answer_merged_into_its_test,
    answer_there_twice_the_last_right,
    answer_moved_up,
    answer_made_text,
    answer_without_its_metadata,
    copied_test,
    ids_lost,
    own_exception,
    a_generator,
    a_fraction_and_text_of_numpy,
    magics,
    merged_with_the_next_answer,
    import_in_a_test,
    moved_up_tests,
    answers_moved_down,
    a_test_made_text,
    function_that_would_use_what_a_cell_shows,
]
WRONG = [
    setup_broken,
    value_from_a_cell_that_shows,
    answer_there_twice_the_last_wrong,
    answer_deleted,
    helper_below_its_test,
    answer_below_its_test,
    private_value_from_a_cell_that_shows,
    computed_from_what_a_cell_shows,
    listed_from_what_a_cell_shows,
]
EXPECTED = [*((change, ALL) for change in RIGHT), *((change, FIRST_WRONG) for change in WRONG)]
# Three processes each: every fifth runs with the fast tests.
CASES = [
    pytest.param(change, expected, id=change.__name__, marks=pytest.mark.slow if number % 5 else ())
    for number, (change, expected) in enumerate(EXPECTED)
]


def kernel(notebook):
    """The names in a kernel in which all but the tests were run, whatever became of them since.

    Tests were run, too, where something was written into them.
    """
    names = {"__name__": "__main__"}
    for cell in notebook.cells:
        about = cell.metadata.get("nbgrader", {})
        ran = cell.cell_type == "code" or about.get("solution")
        if ran and cell.source not in TESTS.values():
            try:
                exec("\n".join(line for line in cell.source.splitlines() if line[:1] != "%"), names)
            except Exception:
                continue  # as a kernel does
    return names


def passed(verdicts):
    return {verdict.grade_id.removesuffix("_test"): verdict.passed for verdict in verdicts}


@pytest.mark.parametrize("change, expected", CASES)
def test_the_three_ways_agree(change, expected, tmp_path):
    released, notebook = lesson(MEAN, SPREAD, TABLE)
    change(notebook)
    path = tmp_path / "1.Agreed.ipynb"
    nbformat.write(notebook, path)
    by_button = _check_names(path, kernel(notebook))
    by_command = check_file(path)
    taken, notes = answers.answered(released, answers.cells(path.read_bytes()))
    by_marking = grade_notebook(json.loads(nbformat.writes(taken)), hidden=True)
    assert passed(by_marking.verdicts) == expected, notes
    for shown in (by_button, by_command):
        said = passed(shown.verdicts)
        unseen = {name: passes for name, passes in expected.items() if name not in said}
        assert said | unseen == expected, shown
        for name in unseen:
            assert f"{name}_test was deleted" in str(shown)
