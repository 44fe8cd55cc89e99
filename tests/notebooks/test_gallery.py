"""The site of executed lessons: what its pages show, and which executions are good enough for it."""

import base64
import os

import nbformat
import pytest

import gallery
import lessons

PNG = b"\x89PNG\r\n\x1a\n a picture"
FIGURE = f'<img class="ddl-picture" alt="A line that &quot;falls&quot;" src="data:image/png;base64,{base64.b64encode(PNG).decode()}">'
START = """\
# %% [markdown]
# # Distributed deep learning, by doing it
#
# **Does it work?**
#
# See [the first lesson](notebooks/1.First.ipynb#2.-More), [a script](source_code/it's%20one.py),
# [the words](docs/glossary.md) and [the web](https://example.org).
#
# ![A map of lessons](images/map.svg)

# %% tags=["parameters"]
size = "reader"
"""
FIRST = """\
# %% [markdown]
# # 1. First
#
# **What is $m$?** is not the question.
#
# **Why is it so?**

# %% tags=["parameters"]
size = "reader"

# %% [markdown]
# ## 2. More
#
# Back to [the start](../Start_Here.ipynb).

# %% nbgrader={"grade": false, "grade_id": "q01", "locked": false, "schema_version": 3, "solution": true, "task": false}
### BEGIN SOLUTION
secret = 42
### END SOLUTION
print(size)
"""


class Course:
    """Two tiny lessons, and executions of them."""

    def __init__(self, root):
        self.root, self.site = root, root / "build" / "site"
        for name, text in {"Start_Here": START, "1.First": FIRST}.items():
            source = root / "grading" / "source" / name / f"{name}.py"
            source.parent.mkdir(parents=True)
            source.write_text(text)
        for name, text in {
            "images/map.svg": "<svg/>",
            "source_code/it's one.py": "",
            "docs/glossary.md": "# Words",
        }.items():
            (root / name).parent.mkdir()
            (root / name).write_text(text)
        lessons.build(root)
        (root / "notebooks" / "own.ipynb").write_text("a reader's own, and no notebook")
        self.first = root / "notebooks" / "1.First.ipynb"

    def ran(self, size="smoke", error=False):
        """Leave the execution of lesson 1 that `make run` would."""
        notebook = lessons.master(FIRST)
        places = f"in {self.root}/runs, {lessons.work_folder('1.First', self.root)}/notebooks\n"
        text = nbformat.v4.new_output("stream", name="stdout", text=places)
        notebook.cells[-1].outputs = [text, nbformat.v4.new_output("display_data", {"text/html": FIGURE})]
        notebook.metadata["papermill"] = {
            "end_time": "2026-11-22T10:00:00",
            "exception": error,
            "parameters": {"size": size},
        }
        result = self.root / "build" / "1.First.ipynb"
        result.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, result)
        return result

    def page(self, name):
        return (self.site / name).read_text()


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    return Course(tmp_path_factory.mktemp("gallery") / "course")


@pytest.fixture(scope="module")
def built(course):
    """The course, with a site of it."""
    course.ran("reader")
    gallery.build(course.root, course.site)
    return course


def test_pages_show_what_was_executed_without_answers_or_folders_and_lead_to_one_another(built):
    index, page = built.page("index.html"), built.page("notebooks/1.First.html")
    for part in (
        '<a href="Start_Here.html">Start Here</a>',
        "<strong>Does it work?</strong>",
        'alt="A map of lessons" src="images/map.svg"',
        '<a href="notebooks/1.First.html">1. First</a>',
        "<strong>Why is it so?</strong>",
        'src="assets/1.First.png"',
        "executed on 2026-11-22 at reader size",
    ):
        assert part in index, part
    assert index.count("not executed") == 1 and 'class="contents"' not in index
    for part in (
        "in ~/course/runs, ~/course/notebooks",
        base64.b64encode(PNG).decode(),
        "YOUR CODE HERE",
        '<a href="#2.-More">2. More</a>',
        '<a href="../Start_Here.html" rel="prev">← Start Here</a>',
        '<a href="../docs/glossary.html" rel="help">Words</a>',
        '<a href="../index.html">',
    ):
        assert part in page, part
    assert not any(part in page for part in ("secret", str(built.root), 'rel="next"'))
    assert '<a href="notebooks/1.First.html" rel="next">1. First →</a>' in built.page("Start_Here.html")


def test_an_execution_that_is_kept_is_shown_without_another_until_a_better_one(course):
    course.ran("reader")
    assert gallery.main(["keep"], course.root) == 0
    (course.root / "build" / "1.First.ipynb").unlink()
    kept = gallery.lesson(course.first, course.root)
    assert kept.note == "executed on 2026-11-22 at reader size"
    assert kept.notebook.cells[-1].outputs[0].text == "in ~/course/runs, ~/course/notebooks\n"
    course.ran("smoke")
    assert "reader" in gallery.lesson(course.first, course.root).note
    source = course.root / "grading" / "source" / "1.First" / "1.First.py"
    source.write_text(FIRST.replace("print(size)", "print(2 * size)"))
    assert gallery.lesson(course.first, course.root).note.endswith("at reader size; 1 cell changed since")
    source.write_text(FIRST)
    (course.root / gallery.RECORDS / "1.First.ipynb.xz").unlink()


def test_executions_are_used_again_while_they_are_good(course):
    result = course.ran()
    assert gallery.executed(course.first, course.root)
    assert gallery.executed(course.first, course.root, "reader") is None
    course.ran("reader")
    assert gallery.executed(course.first, course.root) and gallery.executed(course.first, course.root, "reader")
    course.ran(error=True)
    assert gallery.executed(course.first, course.root) is None
    course.ran()
    os.utime(result, (0, 0))
    assert gallery.executed(course.first, course.root) is None
    result.unlink()
    assert gallery.executed(course.first, course.root) is None
    assert gallery.lesson(course.first, course.root).note == "not executed"
