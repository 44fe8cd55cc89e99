"""The web site of executed lessons."""

import re

import nbformat
import pytest

import lessons
import website
from helpers import ROOT

LESSON = """\
# %% [markdown]
# # 1. First
#
# **Why is it so?** See [a script](../source_code/one.py).

# %% tags=["parameters"]
size = "reader"

# %% nbgrader={"grade": false, "grade_id": "q01", "locked": false, "schema_version": 3, "solution": true, "task": false}
### BEGIN SOLUTION
secret = 42
### END SOLUTION
print(size)
"""


class Course:
    """A tiny lesson, and executions of it."""

    def __init__(self, root):
        self.root, self.source = root, root / "lessons" / "1.First.py"
        self.source.parent.mkdir(parents=True)
        self.source.write_text(LESSON)
        lessons.build(root)
        self.path = root / "notebooks" / "1.First.ipynb"

    def ran(self, size="smoke", error=False):
        """Leave the execution that `make run` would."""
        notebook = lessons.master(LESSON)
        texts = f"in {self.root}/runs\n", "[ 0:00] queued run\n", "[ 0:03] training run\n", "✓ run done in 0:05\n"
        notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", name="stdout", text=text) for text in texts]
        record = {"end_time": "2026-11-22T10:00:00", "exception": error, "parameters": {"size": size}}
        notebook.metadata["papermill"] = record
        result = self.root / "build" / "1.First.ipynb"
        result.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, result)
        return result

    def shown(self):
        """Return the last code cell of the lesson's page, and the line that says when it was executed."""
        *_, code, note = website.page(self.path, self.root).cells
        return code, note.source.strip("*")


@pytest.fixture
def course(tmp_path):
    return Course(tmp_path / "course")


def test_page_shows_outputs_without_answers(course):
    assert course.shown()[1] == "Not executed."
    course.ran("reader")
    code, note = course.shown()
    assert note == "Executed on 2026-11-22 at reader size."
    assert "secret" not in code.source and "YOUR CODE HERE" in code.source
    assert "".join(output.text for output in code.outputs) == f"in {course.root}/runs\n✓ run done in 0:05\n"


def test_kept_execution_is_shown_until_a_better_one(course):
    course.ran("reader")
    assert website.main(["keep"], course.root) == 0
    (course.root / "build" / "1.First.ipynb").unlink()
    code, note = course.shown()
    assert "reader" in note and code.outputs[0].text == "in ~/course/runs\n"
    course.ran("smoke")
    assert "reader" in course.shown()[1]
    course.source.write_text(LESSON.replace("print(size)", "print(2 * size)"))
    code, note = course.shown()
    assert "1 cell changed since" in note and code.outputs == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_site_builds_without_warnings_and_loads_nothing_from_other_hosts(capfd, monkeypatch):
    monkeypatch.setenv("DDL_SITE_REPOSITORY", "ada/course")  # a fork
    assert website.build(ROOT) == 0
    assert "WARNING" not in capfd.readouterr().err
    site = ROOT / "build" / "site"
    texts = {page: page.read_text() for page in site.rglob("*.html")}
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]* src="(?:https?:)?//|<link[^>]*stylesheet[^>]* href="(?:https?:)?//"""
    )
    assert [page for page, text in texts.items() if loaded.search(text)] == []
    index = (site / "index.html").read_text()
    assert re.search(r"make\s.{0,40}lab", re.sub("<.*?>", "", index)) and "Is it for you?" in index
    assert "https://github.com/ada/course" in index
    assert "<h1>Start here" in (site / "Start_Here.html").read_text()
    assert "https://codespaces.new/ada/course" in index and "https://mybinder.org/v2/gh/ada/course/" in index
    assert len(list((site / "notebooks").glob("*.html"))) == len(lessons.notebooks(ROOT)) - 1
    assert [page for page, text in texts.items() if str(ROOT) in text] == []
