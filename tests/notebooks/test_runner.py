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
        path = self.root / "lessons" / f"{name}.py"
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


def test_build_is_deterministic(course):
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


def test_new_cell_keeps_other_cell_ids(course):
    source = course("1.First")
    course.main("build")
    path = course.root / "notebooks" / "1.First.ipynb"
    before = [cell["id"] for cell in cells(path)]
    source.write_text(GOOD.replace("# %%\nimport", "# %%\nprint(0)\n\n# %%\nimport"))
    course.main("build")
    assert [cell["id"] for cell in cells(path) if cell["id"] in before] == before


def test_check_names_stale_notebooks(course, capsys):
    source = course("1.First")
    course.main("build")
    assert course.main("check") == 0
    source.write_text(GOOD + "\n# %%\n2\n")
    course("2.Second")
    (course.root / "notebooks" / "a reader's own.ipynb").write_text("{}")
    capsys.readouterr()
    assert course.main("check") == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("notebooks/1.First.ipynb differs") and "make notebooks" in first
    assert second.startswith("notebooks/2.Second.ipynb")


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


@pytest.mark.parametrize(
    "change", [("raise NotImplementedError()", "answer = 42"), ('"execution_count": null', '"execution_count": 1')]
)
def test_build_backs_up_answered_notebooks(course, capsys, change):
    course("1.Asks", ASKING)
    course.main("build")
    course.main("build")
    assert not (course.root / "backup").exists()
    path = course.root / "notebooks" / "1.Asks.ipynb"
    path.write_text(mine := path.read_text().replace(*change))
    capsys.readouterr()
    course.main("build")
    (kept,) = (course.root / "backup").glob("notebooks-*/1.Asks.ipynb")
    assert kept.read_text() == mine != path.read_text()
    assert str(kept.relative_to(course.root)) in capsys.readouterr().out


WRITING = """
# %% nbgrader={"grade": false, "grade_id": "q02", "locked": false, "schema_version": 3, "solution": true, "task": false}
%%writefile mine.py
### BEGIN SOLUTION
model = "answer"
### END SOLUTION

# %%
from pathlib import Path

print(sorted(each.name for each in Path().iterdir()), answer)
"""


def five_lessons(folder):
    """Good and bad lessons run next to a reader's work and a foreign kernel of the same name."""
    foreign = folder / "foreign" / "kernels" / "python3"
    foreign.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "x", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(spec))

    course = Course(folder)
    course("1.Raises", GOOD + "\n# %%\ndef f(x):\n    return 1 / x\n\n\nf(0)\n\n# %%\nprint(3)\n")
    course("2.Dies", GOOD + "\n# %%\nimport os\n\nos._exit(3)\n\n# %%\nprint(3)\n")
    course("3.Asks", ASKING + WRITING)
    course("4.Wrong", ASKING.replace("6 * 7", "6 + 7"))
    course("5.Syntax", GOOD + "\n# %%\ndef f(:\n")
    with contextlib.redirect_stdout(io.StringIO()):
        course.main("build")
    for name in OWN:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("a reader's own")
    program = "import pathlib, sys, lessons; print('status', lessons.main(['run'], pathlib.Path(sys.argv[1])))"
    kernels = str(foreign.parents[1])
    environment = {"JUPYTER_PATH": kernels, "JUPYTER_DATA_DIR": kernels, "PYTHONPATH": str(ROOT / "tools")}
    return [sys.executable, "-c", program, folder], environment | {"DDL_RUNS_DIR": str(folder / "runs")}


OWN = ("mine.py", "notebooks/mine.py", "notebooks/own.ipynb", "runs/answers.json")
OUTPUTS = {"five": five_lessons}


@pytest.fixture(scope="module")
def five(output_of):
    """The folder of these lessons after a run of the runner, and the lines that it printed."""
    folder, printed = output_of("five")
    return folder, printed.splitlines()


@pytest.mark.slow
def test_runner_continues_and_lists_failures(five):
    """Lessons run with their model answers. A foreign kernel of the same name in the user's folders is not what runs."""
    root, (*lines, status) = five
    assert status == "status 1"
    *ends, total = [line.split() for line in lines if line.endswith(("passed", "FAILED"))]
    ends = {name: end for _, name, *_, end in ends}
    names = ["1.Raises", "2.Dies", "3.Asks", "4.Wrong", "5.Syntax"]
    assert {name for name in names if ends.pop(name) == "FAILED"} == {*names} - {"3.Asks"} and not ends
    assert total[:4] == ["lessons", "5", "of", "5"] and total[-2:] == ["4", "FAILED"]
    *_, raised, died, wrong, syntax = lines
    assert raised == "lessons/1.Raises.py: cell 4 raised ZeroDivisionError: division by zero"
    assert died == "lessons/2.Dies.py: cell 4 ended its kernel"
    assert wrong == "lessons/4.Wrong.py: cell 5 raised AssertionError: "
    assert syntax.startswith("lessons/5.Syntax.py: cell 4 raised SyntaxError")
    assert "    f(0)" in lines and any("----> 2" in line for line in lines)
    build = root / "build"
    assert "ZeroDivisionError" in (build / "1.Raises.html").read_text()
    printed = [cell["outputs"][0]["text"][0] for cell in cells(build / "3.Asks.ipynb") if cell.get("outputs")]
    assert printed[0] == f"kernel {sys.executable} size smoke\n"
    assert printed[2] == f"{[*(f'{name}.ipynb' for name in names), 'mine.py']} 42\n"
    assert (build / "3.Asks.html").exists()


@pytest.mark.slow
def test_runner_leaves_user_files_and_no_answers(five):
    root, _ = five
    assert {name: (root / name).read_text() for name in OWN} == dict.fromkeys(OWN, "a reader's own")
    left = [path for path in root.rglob("*") if path.is_file() and "lessons" not in path.relative_to(root).parts]
    for text in ("SOLUTION", "6 * 7", 'model = "answer"'):
        assert [path for path in left if text.encode() in path.read_bytes()] == []
