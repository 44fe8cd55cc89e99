"""Building, comparing and executing notebooks: one tiny lesson per way in which it can go."""

import json
import os
import sys
import textwrap

import pytest

import lessons

GOOD = """\
# %% [markdown]
# # A tiny lesson

# %% tags=["parameters"]
size = "reader"

# %%
import sys

print("kernel", sys.executable, "size", size)
"""


@pytest.fixture
def course(tmp_path):
    """Return a function that writes a lesson's source; the course's root is `.root`."""

    def write(name, text=GOOD):
        path = tmp_path / "grading" / "source" / name / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    write.root = tmp_path
    write.main = lambda *arguments: lessons.main(list(arguments), tmp_path)
    return write


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
    assert len({cell["id"] for cell in built["cells"]}) == len(built["cells"]) == 5
    assert built["cells"][1]["metadata"] == {"tags": ["parameters"]}
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


def test_the_runner_goes_on_after_a_failure_and_repeats_it_at_the_end(course, capsys, monkeypatch, tmp_path):
    """A foreign kernel of the same name lies in the user's folders and is not what runs."""
    foreign = tmp_path / "foreign" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(foreign.parents[1]))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(foreign.parents[1]))

    course("1.Raises", GOOD + "\n# %%\ndef f(x):\n    return 1 / x\n\n\nf(0)\n\n# %%\nprint(3)\n")
    course("2.Dies", GOOD + "\n# %%\nimport os\n\nos._exit(3)\n\n# %%\nprint(3)\n")
    course("3.Good")
    course.main("build")
    capsys.readouterr()
    assert course.main("run") == 1

    said = capsys.readouterr().out.splitlines()
    ends = [line.split()[1] for line in said if line.endswith(("passed", "FAILED"))]
    assert ends == ["1.Raises", "2.Dies", "3.Good"]
    assert said[-2:] == [
        "notebooks/1.Raises.ipynb: cell 4 raised ZeroDivisionError: division by zero",
        "notebooks/2.Dies.ipynb: cell 4 ended its kernel",
    ]
    assert "    f(0)" in said and any("----> 2" in line for line in said[-30:])
    build = course.root / "build"
    assert "ZeroDivisionError" in (build / "1.Raises.html").read_text()
    printed = cells(build / "3.Good.ipynb")[-1]["outputs"][0]["text"][0]
    assert printed == f"kernel {sys.executable} size smoke\n"


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


def test_a_lesson_with_questions_runs_with_its_model_answers(course, capsys):
    course("1.Asks", ASKING)
    course("2.Wrong", ASKING.replace("6 * 7", "6 + 7"))
    course.main("build")
    lost = course("3.Lost", ASKING)
    course.main("build")
    lost.unlink()
    assert course.main("run") == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "notebooks/2.Wrong.ipynb: cell 5 raised AssertionError: ",
        "notebooks/3.Lost.ipynb: asks questions, and grading/source/3.Lost/3.Lost.py has no answers to them.",
    ]


def test_a_cell_that_is_no_python_is_named(course, capsys):
    course("1.Syntax", GOOD + "\n# %%\ndef f(:\n")
    course.main("build")
    assert course.main("run", "1", "--size", "reader") == 1
    assert "cell 4 raised SyntaxError" in capsys.readouterr().out.splitlines()[-1]


def test_lessons_are_executed_beside_their_files(course):
    course("1.Where", GOOD + "\n# %%\nfrom pathlib import Path\n\nprint(Path.cwd().name)\n")
    course.main("build")
    assert course.main("run") == 0
    output = cells(course.root / "build" / "1.Where.ipynb")[-1]["outputs"][0]
    assert output["text"] == ["notebooks\n"]
    assert not os.path.exists(course.root / "notebooks" / "1.Where.html")
