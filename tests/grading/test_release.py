"""Releases of lessons, and lessons that cannot be released."""

import shutil

import nbformat
import pytest

from marking import release


@pytest.fixture
def released(tiny, tmp_path):
    """A release as it should be, and the files that belong into it."""
    folder = tmp_path / "release"
    folder.mkdir()
    nbformat.write(tiny.released, folder / "lesson.ipynb")
    return folder


def test_extra_line_output_or_file_blocks_a_release(tiny, released):
    def differences():
        return release.differences(tiny.solved, released, {"lesson.ipynb"})

    assert differences() == []
    for name, line in {
        "q01_mean": "    canary_in_a_solution = len(values)",
        "q01_mean_test": "canary_in_a_hidden_test = 8191.0",
        "q03_why_prompt": "3 points: canary in a mark scheme, namely N·x / N.",
        "q04_double": "### BEGIN SOLUTION",
    }.items():
        notebook = tiny.untouched()
        tiny.answer(notebook, name).source += f"\n{line}"
        nbformat.write(notebook, released / "lesson.ipynb")
        assert differences() == [f"lesson.ipynb: {line.strip()}"]
    for change in ({"metadata": {"draft": "squares = [1, 4, 9]"}}, {"outputs": [nbformat.v4.new_output("stream")]}):
        notebook = tiny.untouched()
        tiny.answer(notebook, "q02_table_test").update(change)
        nbformat.write(notebook, released / "lesson.ipynb")
        assert "an output or metadata" in differences()[0]
    shutil.move(released / "lesson.ipynb", released / "lesson-solved.ipynb")
    assert differences() == ["lesson-solved.ipynb: a file that is not the lesson's", "lesson.ipynb: missing"]


@pytest.mark.slow
def test_release_with_hidden_tests_is_taken_back(course, tiny, tmp_path):
    """A step that a site's settings leave out: the release is taken back."""
    before = (course.folder / "release" / tiny.name / f"{tiny.name}.ipynb").read_bytes()
    settings = tmp_path / "jupyter"
    settings.mkdir()
    (settings / "nbgrader_config.py").write_text(
        "c = get_config()\nc.ClearHiddenTests.begin_test_delimeter = 'NO SUCH TEXT'\n"
    )
    env = course.env
    course.env = lambda: env() | {"JUPYTER_CONFIG_DIR": str(settings)}
    said = course("release", "--sources", tiny.sources, expect=2)
    assert "canary_in_a_hidden_test = 8191.0" in said and "is not released" in said
    folder = course.folder / "release" / tiny.name
    assert (folder / f"{tiny.name}.ipynb").read_bytes() == before
