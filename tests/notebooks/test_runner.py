"""Building, comparing and executing notebooks: one tiny lesson per way in which it can go."""

import contextlib
import io
import json
import sys
import textwrap

import pytest

import lessons
from helpers import ROOT

GOOD = """\
# %% [markdown]
# # A tiny lesson

# %% tags=["parameters"]
size = "reader"

# %%
import sys

print("kernel", sys.executable, "size", size)
"""


class Course:
    """A course of lessons that a test writes."""

    def __init__(self, root):
        self.root = root

    def __call__(self, name, text=GOOD):
        path = self.root / "grading" / "source" / name / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def main(self, *arguments):
        return lessons.main(list(arguments), self.root)


@pytest.fixture
def course(tmp_path):
    """Return a function that writes a lesson's source; the course's root is `.root`."""
    return Course(tmp_path)


def cells(path):
    return json.loads(path.read_text())["cells"]


def test_a_source_always_gives_the_same_notebook(course):
    course("1.First", GOOD + "\n# %%\nprint(1)\n\n# %%\nprint(1)\n")
    course("Start_Here")
    assert course.main("build") == 0
    path = course.root / "notebooks" / "1.First.ipynb"
    first = path.read_bytes()
    course.main("build")
    assert path.read_bytes() == first
    assert (course.root / "Start_Here.ipynb").exists()

    built = json.loads(first)
    assert built["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in built["cells"]}) == len(built["cells"]) == 7
    assert built["cells"][2]["metadata"] == {"tags": ["parameters"]}
    assert all(cell.get("outputs", []) == [] for cell in built["cells"])


def test_a_new_cell_leaves_the_others_as_they_are(course):
    source = course("1.First")
    course.main("build")
    path = course.root / "notebooks" / "1.First.ipynb"
    before = [cell["id"] for cell in cells(path)]
    source.write_text(GOOD.replace("# %%\nimport", "# %%\nprint(0)\n\n# %%\nimport"))
    course.main("build")
    assert [cell["id"] for cell in cells(path) if cell["id"] in before] == before


def test_check_names_what_differs_and_what_to_do(course, capsys):
    source = course("1.First")
    course.main("build")
    assert course.main("check") == 0
    source.write_text(GOOD + "\n# %%\n2\n")
    course("2.Second")
    (course.root / "notebooks" / "3.Stray.ipynb").write_text("{}")
    capsys.readouterr()
    assert course.main("check") == 1
    first, second, stray = capsys.readouterr().out.splitlines()
    assert first.startswith("notebooks/1.First.ipynb differs") and "make notebooks" in first
    assert second.startswith("notebooks/2.Second.ipynb")
    assert stray.startswith("notebooks/3.Stray.ipynb has no source")


def test_a_lesson_that_is_not_there_lists_those_that_are(course, capsys):
    course("1.First")
    course.main("build")
    assert course.main("run", "7") == 1
    assert "1.First" in capsys.readouterr().err


def test_what_is_no_lesson_is_refused_before_it_runs(course, capsys):
    course("1.First", GOOD.replace(' tags=["parameters"]', ""))
    course.main("build")
    (course.root / "notebooks" / "2.Broken.ipynb").write_text('{"cells": [')
    (course.root / "notebooks" / "3.Old.ipynb").write_text('{"nbformat": 4, "cells": 3}')
    assert course.main("run") == 1
    first, second, third = capsys.readouterr().out.splitlines()[-3:]
    assert first == ("notebooks/1.First.ipynb: has no cell with the tag `parameters`, so its size cannot be set.")
    assert second.startswith("notebooks/2.Broken.ipynb: is not a notebook:")
    assert third.startswith("notebooks/3.Old.ipynb: is not a notebook:")
    assert course.main("run", "2") == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-1:]] == ["notebooks/2.Broken.ipynb:"]


ASKING = (
    GOOD
    + """
# %% nbgrader={"grade": false, "grade_id": "q01", "locked": false, "schema_version": 3, "solution": true, "task": false}
### BEGIN SOLUTION
answer = 6 * 7
### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "q01_test", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
assert answer == 42
"""
)


def four_lessons(folder):
    """Lessons that raise, die, ask, and lack their answers, run beside a foreign kernel of the same name."""
    foreign = folder / "foreign" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(spec))

    course = Course(folder)
    course("1.Raises", GOOD + "\n# %%\ndef f(x):\n    return 1 / x\n\n\nf(0)\n\n# %%\nprint(3)\n")
    course("2.Dies", GOOD + "\n# %%\nimport os\n\nos._exit(3)\n\n# %%\nprint(3)\n")
    course("3.Asks", ASKING + "\n# %%\nfrom pathlib import Path\n\nprint(Path.cwd().name, answer)\n")
    lost = course("4.Lost", ASKING)
    with contextlib.redirect_stdout(io.StringIO()):
        course.main("build")
    lost.unlink()
    program = "import pathlib, sys, lessons; print('status', lessons.main(['run'], pathlib.Path(sys.argv[1])))"
    kernels = str(foreign.parents[1])
    environment = {"JUPYTER_PATH": kernels, "JUPYTER_DATA_DIR": kernels, "PYTHONPATH": str(ROOT / "tools")}
    return [sys.executable, "-c", program, folder], environment


BESIDE = {"four": four_lessons}


@pytest.fixture(scope="module")
def four(beside):
    """The folder of these lessons after a run of the runner, and the lines that it printed."""
    folder, printed = beside("four")
    return folder, printed.splitlines()


def test_the_runner_goes_on_after_a_failure_and_repeats_it_at_the_end(four):
    """Lessons run beside their files, and with their model answers.

    A foreign kernel of the same name lies in the user's folders and is not what runs.
    """
    root, (*said, status) = four
    assert status == "status 1"
    ends = [line.split()[1] for line in said if line.endswith(("passed", "FAILED"))]
    assert ends == ["1.Raises", "2.Dies", "3.Asks", "4.Lost"]
    assert said[-3:] == [
        "notebooks/1.Raises.ipynb: cell 4 raised ZeroDivisionError: division by zero",
        "notebooks/2.Dies.ipynb: cell 4 ended its kernel",
        "notebooks/4.Lost.ipynb: asks questions, and grading/source/4.Lost/4.Lost.py has no answers to them.",
    ]
    assert "    f(0)" in said and any("----> 2" in line for line in said[-30:])
    build = root / "build"
    assert "ZeroDivisionError" in (build / "1.Raises.html").read_text()
    printed = [cell["outputs"][0]["text"][0] for cell in cells(build / "3.Asks.ipynb") if cell.get("outputs")]
    assert printed == [f"kernel {sys.executable} size smoke\n", "notebooks 42\n"]
    assert (build / "3.Asks.html").exists() and not (root / "notebooks" / "3.Asks.html").exists()


@pytest.mark.slow
def test_a_wrong_model_answer_is_named(course, capsys):
    course("1.Wrong", ASKING.replace("6 * 7", "6 + 7"))
    course.main("build")
    assert course.main("run") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "notebooks/1.Wrong.ipynb: cell 5 raised AssertionError: "


@pytest.mark.slow
def test_a_cell_that_is_no_python_is_named(course, capsys):
    course("1.Syntax", GOOD + "\n# %%\ndef f(:\n")
    course.main("build")
    assert course.main("run", "1", "--size", "reader") == 1
    assert "cell 4 raised SyntaxError" in capsys.readouterr().out.splitlines()[-1]
