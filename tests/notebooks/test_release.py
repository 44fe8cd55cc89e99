"""What `make notebooks` gives of a graded lesson is what nbgrader's own command releases."""

import json
import os
import sys

import nbformat
import pytest

import lessons
from helpers import ROOT, output

GRADED = [source for source in lessons.sources(ROOT) if '"grade": true' in source.read_text()]

LESSON = """\
# %% nbgrader={{"grade": false, "grade_id": "q01_one", "locked": false, "schema_version": 3, "solution": true, "task": false}}
def one():
    ### BEGIN SOLUTION
    return 1
    ### END SOLUTION

# %% nbgrader={{"grade": true, "grade_id": "{test}", "locked": true, "points": 2, "schema_version": 3, "solution": false, "task": false}}
assert one() == 1
### BEGIN HIDDEN TESTS
assert one() is 1
### END HIDDEN TESTS
"""


def test_release_has_no_solutions_and_stable_ids():
    text = LESSON.format(test="q01_one_test")
    assert lessons.convert(text) == lessons.convert(text.replace("return 1", "return 2 - 1"))
    notebook = nbformat.reads(lessons.convert(text), as_version=4)
    answer, test = notebook.cells
    assert "return 1" not in answer.source and "NotImplementedError" in answer.source
    assert test.source.strip() == "assert one() == 1"
    assert test.metadata.editable is False and test.metadata.nbgrader.checksum


def test_invalid_lesson_is_named(tmp_path):
    source = tmp_path / "lessons" / "1.One.py"
    source.parent.mkdir(parents=True)
    source.write_text(LESSON.format(test="q01_one"))  # the same id twice
    with pytest.raises(SystemExit, match=r"lessons/1.One.py: .*"):
        lessons.main(["build"], tmp_path)


@pytest.mark.nightly("lessons/*", "tools/lessons.py")
@pytest.mark.parametrize("source", GRADED, ids=lambda source: source.stem)
def test_nbgrader_releases_the_same(source, tmp_path):
    name = source.stem
    folder = tmp_path / "source" / name
    folder.mkdir(parents=True)
    nbformat.write(lessons.master(source.read_text()), folder / f"{name}.ipynb")
    (tmp_path / "nbgrader_config.py").write_text(
        'c = get_config()\nload_subconfig("nbgrader_config.py", path="%s")\n' % (ROOT / "grading")
    )
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", name]
    environment = os.environ | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    output(*command, cwd=tmp_path, env=environment)
    released = json.loads((tmp_path / "release" / name / f"{name}.ipynb").read_text())
    assert released == json.loads(lessons.convert(source.read_text()))
