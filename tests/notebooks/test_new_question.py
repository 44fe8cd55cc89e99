"""`make question`: what it writes is a question whose hidden part students don't see."""

import re

import pytest

import lessons
import question
from helpers import ROOT

EXAMPLE = re.search(r"make question LESSON=(\S+) ID=q\w\w_(\w+)", (ROOT / "CONTRIBUTING.md").read_text()).groups()


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Lessons and variants that may be changed."""
    for folder in ("lessons", "tests/grading/variants"):
        (tmp_path / folder).mkdir(parents=True)
        for source in (ROOT / folder).glob("*.py"):
            (tmp_path / folder / source.name).write_text(source.read_text())
    monkeypatch.setattr(lessons, "ROOT", tmp_path)
    monkeypatch.setattr(question, "VARIANTS", tmp_path / "tests/grading/variants")
    return tmp_path


def cells_of(text):
    return [(cell.cell_type, cell.source) for cell in lessons.release(lessons.master(text)).cells]


def test_example_of_contributing_adds_a_question_with_a_hidden_part(copied):
    lesson, function = EXAMPLE
    (source,) = lessons.begins_so(lesson, lessons.sources(copied))
    before = source.read_text()
    name = f"{question.following(before)}_{function}"
    assert question.main(lesson, name) == 0
    released = lessons.release(lessons.master(source.read_text())).cells
    mine = {cell.metadata.nbgrader.grade_id: cell for cell in released if "nbgrader" in cell.metadata}
    assert f"{function}(1)" in mine[f"{name}_test"].source and f"{function}(2)" not in mine[f"{name}_test"].source
    assert "raise NotImplementedError" in mine[name].source
    assert f"{function}(2)" in source.read_text()
    # All that was there is there, in its order, and the question is in front of a heading.
    new = cells_of(source.read_text())
    start = next(at for at, (_, text) in enumerate(new) if text.startswith(f"**Question {int(name[1:3])}** (1 point)"))
    rest = new[:start] + new[start + 3 :]
    assert re.sub(r"\s+", " ", "".join(text for _, text in rest)) == re.sub(
        r"\s+", " ", "".join(text for _, text in cells_of(before))
    )
    assert new[start + 3][1].startswith("## ")
    assert re.findall(rf"# %% {name} (right|wrong)", (copied / f"tests/grading/variants/{source.name}").read_text())


def lesson_of(source):
    mark = () if source.stem == "2.System-Topology" else pytest.mark.slow("lessons/*", "tools/question.py")
    return pytest.param(source.stem, marks=mark)


@pytest.mark.parametrize("lesson", [lesson_of(each) for each in lessons.sources(ROOT) if each.stem != lessons.HOME])
def test_each_lesson_takes_a_question(lesson, copied):
    text = (copied / "lessons" / f"{lesson}.py").read_text()
    longer = question.added(text, "q77_mean")
    questions = [source for _, source in cells_of(longer) if "q77" in source or "Question 77" in source]
    assert len(cells_of(longer)) - len(cells_of(text)) in (3, 4) and len(questions) == 1


def test_number_that_does_not_follow_is_refused(copied):
    (source,) = lessons.begins_so("1", lessons.sources(copied))
    with pytest.raises(SystemExit, match=f"begins with {question.following(source.read_text())}_"):
        question.main("1", "q88_mean")


def test_nothing_of_a_template_is_left_in_a_lesson():
    for source in lessons.sources(ROOT):
        assert "TODO" not in source.read_text(), source.name
