"""Handing in: into nbgrader's exchange and into a folder, and what `make collect` takes from there."""

import nbformat
import pytest

from course.lab.handin import hand_in
from ddl.cli import main
from ddl.errors import CourseError, InputError


@pytest.fixture
def mine(tmp_path, tiny, monkeypatch):
    """Return a function that saves an attendee's notebook and becomes that attendee."""

    def save(user, notebook):
        monkeypatch.setenv("JUPYTERHUB_USER", user)
        path = tmp_path / "home" / user / f"{tiny.name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        return path

    return save


@pytest.mark.slow
def test_latest_hand_in_from_exchange_counts(tmp_path, tiny, course_folder, mine, monkeypatch):
    exchange = tmp_path / "exchange"
    monkeypatch.setenv("DDL_EXCHANGE", str(exchange))
    course = course_folder(tmp_path / "course", tiny)
    said = course.release([("ann", "Ann", "Ames", ""), ("bob", "Bob", "Ames", "")])
    assert str(exchange) in said
    assert "handed in for ann, as it was saved at" in hand_in(mine("ann", tiny.untouched()))
    assert main(["submit", str(mine("ann", tiny.right()))]) == 0
    hand_in(mine("bob", tiny.untouched()))
    (theirs,) = exchange.glob(f"ddl/inbound/bob+*/{tiny.name}.ipynb")
    theirs.unlink()
    theirs.symlink_to(course.folder / "source" / tiny.name / theirs.name)  # which only the instructor may read
    said = course("collect")
    taken = course.notebook("submitted", "ann")
    assert tiny.answer(taken, "q01_mean").source == tiny.answer(tiny.right(), "q01_mean").source
    assert "NotImplementedError" in tiny.answer(course.notebook("submitted", "bob"), "q01_mean").source
    assert "is a link, which is not followed" in " ".join(said.split())


def test_invalid_hand_in_is_refused(tiny, mine, monkeypatch, tmp_path):
    path = mine("ann", tiny.right())
    monkeypatch.delenv("DDL_EXCHANGE", raising=False)
    with pytest.raises(InputError, match="--into FOLDER"):
        hand_in(path)
    monkeypatch.setenv("DDL_EXCHANGE", str(tmp_path / "nowhere"))
    with pytest.raises(CourseError, match="released it there"):
        hand_in(path)
    path.write_text("{")
    with pytest.raises(InputError, match="cannot be read as a notebook"):
        hand_in(path, tmp_path)
