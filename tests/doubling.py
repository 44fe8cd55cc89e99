"""A lesson of two questions, for the attendees' own check."""

import nbformat
from nbformat import v4

SOLVED = {"q01_double": "def double(x):\n    return 2 * x", "q02_table": "table = [1, 4, 9]"}
STUBS = {"q01_double": "def double(x):\n    raise NotImplementedError()", "q02_table": "raise NotImplementedError()"}
TESTS = {"q01_double": "assert double(2) == 4", "q02_table": "assert table == [1, 4, 9]"}


def write_lesson(folder, answers, *more, name="7.Doubling", first=()):
    """Write a lesson of two questions with these answers into the folder's ``notebooks/``; return its path."""
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
    path = folder / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(exist_ok=True)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)
    return path


def write_released(folder, answers, *more, text="YOUR ANSWER HERE"):
    """Write the released lesson with a written answer; return its path."""
    path = write_lesson(folder, answers, *more)
    notebook = nbformat.read(path, as_version=4)
    for name, cell in zip(TESTS, notebook.cells[::2], strict=False):
        cell.metadata.nbgrader = {"grade_id": name, "grade": False, "solution": True}
        cell.metadata.tags = ["raises-exception"]
    role = {"grade_id": "q03_words", "grade": True, "solution": True, "points": 3}
    notebook.cells.append(v4.new_markdown_cell(text, metadata={"nbgrader": role}))
    nbformat.write(notebook, path)
    return path
