"""An attendee's progress from saved notebooks, checks and runs."""

import json
from functools import partial

import nbformat
import pytest

from course import progress
from course.lab import attendee
from course.lab.check import check_file
from ddl import cli
from ddl.records.paths import runs_dir
from doubling import SOLVED, STUBS, write_released


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """Return a function that writes the lesson with answers, as it is released; gives its path."""
    monkeypatch.chdir(tmp_path)
    return partial(write_released, tmp_path)


def stand():
    (lesson,) = progress("notebooks").lessons
    return [(each.state, each.answered, each.earned) for each in lesson.questions], lesson.next


def test_a_check_is_kept_until_its_answer_changes(lesson, capsys):
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


def test_runs_are_counted_by_the_notebook_that_shows_them(lesson):
    path = lesson(STUBS)
    for number, notebook in enumerate((str(path), "/elsewhere/Start_Here.ipynb", None)):
        folder = runs_dir() / str(number)
        folder.mkdir()
        (folder / "job.json").write_text("{}")
        if notebook:
            (folder / "shown.json").write_text(json.dumps({"notebook": notebook}))
    found = progress("notebooks")
    assert (found.lessons[0].runs, found.runs) == (1, 3)


def test_no_answer_is_run_and_the_row_leads_to_the_lesson(lesson, tmp_path):
    lesson(SOLVED | {"q01_double": f"# YOUR CODE HERE\nopen({str(tmp_path / 'ran')!r}, 'w')"})
    page = progress("notebooks")._repr_html_()
    assert '<a href="notebooks/7.Doubling.ipynb">question 1: to be checked</a>' in page
    assert not (tmp_path / "ran").exists()


def test_a_damaged_record_is_written_anew(lesson):
    path = lesson(SOLVED)
    (runs_dir() / "answers.json").write_text("{")
    assert stand()[0][0] == ("unchecked", True, 0)
    attendee.keep_check(path.stem, {"q01_double_test": (True, attendee.digest(SOLVED["q01_double"]))})
    assert stand()[0][0] == ("done", True, 2)


def test_rejected_answer_does_not_pass_later(lesson):
    """Checks of the questions above a cell are added to earlier ones."""
    states = []
    for answer, checks in (("double = abs", True), (SOLVED["q01_double"], True), ("double = abs", False)):
        path = lesson(SOLVED | {"q01_double": answer})
        if checks:
            check_file(path, above=nbformat.read(path, as_version=4).cells[2].id)
        states.append(stand()[0][0])
    assert states == [("failed", True, 0), ("done", True, 2), ("changed", True, 0)]
