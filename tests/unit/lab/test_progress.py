"""An attendee's progress from saved notebooks, checks and runs."""

import shutil
from functools import partial

import pytest

from course import progress
from ddl import cli
from doubling import SOLVED, STUBS, write_released


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes the lesson with answers, as it is released; gives its path."""
    monkeypatch.chdir(tmp_path)
    return partial(write_released, tmp_path)


def stand():
    (lesson,) = progress("notebooks").lessons
    return [(each.state, each.answered, each.earned) for each in lesson.questions], lesson.next


def test_check_result_is_kept_until_the_answer_changes(lesson, capsys):
    path = lesson(SOLVED | {"q02_table": "table = [1]"})
    assert stand() == ([("unchecked", True, 0)] * 2 + [("open", False, 0)], "question 1: to be checked")
    assert cli.main(["check", str(path)]) == 1
    assert stand()[0] == [("done", True, 2), ("failed", True, 0), ("open", False, 0)]
    lesson(SOLVED, text="Because.")
    states, then = stand()
    assert states == [("done", True, 2), ("changed", True, 0), ("done", True, 0)]
    assert then == "question 2: changed since it was checked"
    assert cli.main(["check", str(path)]) == 0
    assert stand() == ([("done", True, 2), ("done", True, 2), ("done", True, 0)], "done")
    assert "1 of 1 lesson done, 3 of 3 questions answered, 4 of 4 points" in repr(progress("notebooks"))


def test_notebook_in_depth_is_shown_when_it_is_begun(lesson):
    path = lesson(SOLVED)
    branch = path.with_name("7b.Doubling-in-Depth.ipynb")
    shutil.copy(lesson(STUBS), branch)
    lesson(SOLVED)
    assert branch.stem not in repr(progress("notebooks")) and "0 of 1 notebook in depth" in repr(progress("notebooks"))
    shutil.copy(path, branch)
    assert branch.stem in repr(progress("notebooks"))


def test_progress_runs_no_answer(lesson, tmp_path):
    lesson(SOLVED | {"q01_double": f"# YOUR CODE HERE\nopen({str(tmp_path / 'ran')!r}, 'w')"})
    page = progress("notebooks")._repr_html_()
    assert '<a href="notebooks/7.Doubling.ipynb">question 1: to be checked</a>' in page
    assert not (tmp_path / "ran").exists()
