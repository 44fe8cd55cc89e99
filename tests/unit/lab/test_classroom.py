"""A class that shares where it is: what is written, who has it, and files that mean harm."""

import json
import os
import stat

import pytest

from course import share
from course.lab import notebooks
from course.lab.classroom import classroom
from ddl import cli
from doubling import SOLVED, write_released

LESSON = "7.Doubling"
ANN = {"name": "ann", "lesson": LESSON, "time": 0, "passes": {LESSON: {"q01_double": True, "q02_table": False}}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A class's folder, for an attendee called ann with a lesson that is half right."""
    monkeypatch.chdir(tmp_path)
    shared = tmp_path / "table"
    shared.mkdir()
    monkeypatch.setenv("DDL_CLASS", str(shared))
    monkeypatch.setenv("JUPYTERHUB_USER", "ann")
    path = write_released(tmp_path, SOLVED | {"q02_table": "table = ['secret']"})
    monkeypatch.setattr(notebooks, "lessons", lambda: {LESSON: path})  # the course's take longer to read
    return shared


def put(folder, name, content):
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def test_nothing_is_shared_by_default(folder, capsys):
    assert cli.main(["check", LESSON]) == 1
    assert list(folder.iterdir()) == []
    cli.main(["progress"])
    assert "Your instructor cannot see this" in capsys.readouterr().out


@pytest.mark.slow("source_code/course/grader/*", "source_code/course/lab/*")
def test_progress_is_shared_without_answers_until_stopped(folder, capsys):
    assert cli.main(["share", "on"]) == 0
    assert "your name (ann)" in capsys.readouterr().out
    cli.main(["check", LESSON])
    (path,) = folder.iterdir()
    content = json.loads(path.read_text())
    assert content | {"time": 0} == ANN and stat.S_IMODE(path.stat().st_mode) == 0o640
    cli.main(["progress"])
    assert "Your instructor sees your progress" in capsys.readouterr().out
    assert "no longer shared" in share(False)
    cli.main(["check", LESSON])
    assert list(folder.iterdir()) == []


def test_class_table_shows_progress_and_hard_questions(folder, capsys):
    put(folder, "ann.json", ANN)
    put(folder, "bob.json", ANN | {"name": "bob", "passes": {LESSON: {"q01_double": False, "q02_table": False}}})
    put(folder, "cem.json", ANN | {"name": "cem", "lesson": "", "passes": {}})
    table = classroom(folder)
    assert [row[:4] for row in table.rows()] == [
        ("ann", LESSON, "1", "q02_table"),
        ("bob", LESSON, "0", "q01_double, q02_table"),
        ("cem", "–", "0", "–"),
    ]
    assert list(table.questions()) == [(LESSON, "q02_table", "2", "2"), (LESSON, "q01_double", "1", "2")]
    assert cli.main(["class"]) == 0
    assert "3 attendees of this class share" in capsys.readouterr().out


BAD = {
    "text": "{",
    "deep": "[" * 5000,
    "list": "[1]",
    "huge": "[" + "1," * 40000 + "1]",
    "other": ANN,
    "timeless": ANN | {"name": "timeless", "time": 10**400},
    "never": '{"name": "never", "lesson": "", "time": NaN, "passes": {}}',
    "typed": ANN | {"name": "typed", "passes": [LESSON]},
}


def test_bad_file_is_skipped_with_reason(folder, tmp_path):
    for name, content in BAD.items():
        put(folder, f"{name}.json", content)
    put(tmp_path, "ann.json", ANN)
    (folder / "link.json").symlink_to(tmp_path / "ann.json")
    os.mkfifo(folder / "pipe.json")  # opening it would wait for a writer
    (folder / "folder.json").mkdir()
    odd = {LESSON: {"q01_double": 1, "q99": True, "q02_table": False}, "<b>": {"q": True}, "x": 3}
    put(folder, "ann.json", ANN | {"lesson": ["<b>"], "passes": odd})  # only what is known, and of its kind, is taken
    (seat,), left_out = classroom(folder).seats, classroom(folder).left_out
    assert (seat.name, seat.lesson, seat.passes) == ("ann", "", {LESSON: {"q02_table": False}})
    assert {each.partition(".json is skipped: ")[0] for each in left_out} == {*BAD, "link", "pipe", "folder"}


def test_names_have_no_markup_or_control_characters(folder):
    put(folder, "<img>.json", ANN | {"name": "<img>"})
    put(folder, "\x1b[2J.json", "{")
    page, text = classroom(folder)._repr_html_(), repr(classroom(folder))
    assert "&lt;img&gt;" in page and "\x1b" not in page + text and "�[2J.json is skipped" in text
