"""Lessons with questions: these fit together, and the lesson runs when none is answered."""

import ast
import re
from collections import Counter

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

import lessons
from course.lab.hints import steps_of
from helpers import ROOT


class Lesson:
    """A lesson's cells: tests, prompts of what people mark, and answers, by `grade_id`."""

    def __init__(self, source):
        self.name, self.text = source.stem, source.read_text()
        self.cells = jupytext.reads(self.text, fmt="py:percent").cells
        self.graded = {c.metadata.nbgrader.grade_id: c for c in self.cells if "nbgrader" in c.metadata}
        self.tests = {name: cell for name, cell in self.graded.items() if name.endswith("_test")}
        self.prompts = {name: cell for name, cell in self.graded.items() if name.endswith("_prompt")}
        self.answers = {name: cell for name, cell in self.graded.items() if cell.metadata.nbgrader.solution}
        self.tested = {name for name, cell in self.answers.items() if not cell.metadata.nbgrader.grade}

    def answer_to(self, name):
        """Return the answer before a test; a script has several tests, one per mistake."""
        order = list(self.graded)
        return [answer for answer in order[: order.index(name) + 1] if answer in self.answers][-1]

    def asked(self):
        """Names that answers define."""
        sources = [cell.source for cell in self.answers.values() if cell.cell_type == "code"]
        trees = [node for source in sources if not source.startswith("%%") for node in ast.parse(source).body]
        assigned = {node.targets[0].id for node in trees if isinstance(node, ast.Assign)}
        return assigned | {node.name for node in trees if isinstance(node, ast.FunctionDef)}


GRADED = [path for path in lessons.sources(ROOT) if "### BEGIN HIDDEN TESTS" in path.read_text()]
IMPORTED = {  # by tests: nothing heavy
    "math", "numpy", "json", "itertools", "course.shared.ring", "course.multi_gpu", "course.sharding"
}  # fmt: skip


@pytest.fixture(scope="module", params=GRADED, ids=lambda path: path.stem)
def lesson(request):
    return Lesson(request.param)


def test_every_test_and_prompt_has_its_answer_cell(lesson):
    assert len(lesson.graded) == sum("nbgrader" in cell.metadata for cell in lesson.cells)
    assert set(lesson.graded) == set(lesson.tests) | set(lesson.prompts) | set(lesson.answers)
    numbers = sorted({int(re.fullmatch(r"q(\d\d)_[a-z_]+", name)[1]) for name in lesson.graded})
    assert numbers == list(range(1, len(numbers) + 1))
    assert {lesson.answer_to(name) for name in lesson.tests} == lesson.tested
    assert {name.removesuffix("_prompt") for name in lesson.prompts} == set(lesson.answers) - lesson.tested
    order = list(lesson.graded)
    for name in lesson.tested:
        assert order.index(f"{name}_test") == order.index(name) + 1
        answer = lesson.answers[name]
        assert answer.cell_type == "code" and "### BEGIN SOLUTION" in answer.source, name
    for name, prompt in lesson.prompts.items():
        assert order[order.index(name) + 1] == name.removesuffix("_prompt")
        assert "=== BEGIN MARK SCHEME ===" in prompt.source and prompt.metadata.nbgrader.locked
        assert prompt.metadata.nbgrader.grade is False
        assert "### BEGIN SOLUTION" in lesson.graded[name.removesuffix("_prompt")].source


def test_points_match_the_text(lesson):
    text = "\n".join(cell.source for cell in lesson.cells if cell.cell_type == "markdown")
    stated = re.findall(r"\*\*Question[^*]*\*\* \((\d+) points?\)", text)
    given = Counter()
    for name, cell in lesson.graded.items():
        if cell.metadata.nbgrader.grade:
            given[lesson.answer_to(name)] += cell.metadata.nbgrader.points
    assert list(map(int, stated)) == list(given.values())


def test_every_test_has_a_hidden_part_and_imports_nothing_heavy(lesson):
    for cell in lesson.tests.values():
        assert "### BEGIN HIDDEN TESTS" in cell.source and cell.metadata.nbgrader.locked
        assert "raises-exception" in cell.metadata.tags, (
            f"{cell.metadata.nbgrader.grade_id} would end a run of all cells"
        )
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= IMPORTED
            if isinstance(node, ast.ImportFrom):
                assert node.module in IMPORTED


def test_each_question_with_tests_has_three_hints(lesson):
    have = {question: len(steps) for question, steps in lessons.hints(lesson.text).items()}
    assert have == dict.fromkeys(lesson.tested, 3)


def test_released_lesson_has_no_hint_in_plain_text(lesson):
    text = (ROOT / "notebooks" / f"{lesson.name}.ipynb").read_text() + (ROOT / lessons.HINTS).read_text()
    hints = lessons.hints(lesson.text)
    for question, steps in steps_of(lesson.name).items():
        assert steps == hints[question]
        assert not any(step[:40] in text for step in steps[:2])


@pytest.mark.nightly("lessons/1*")
def test_released_lesson_runs_and_only_tests_fail(monkeypatch):
    name = "1.Gradient-Basics"  # the others' runs take minutes: tests/browser runs them so
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    monkeypatch.chdir(ROOT / "notebooks")
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace('"reader"', '"smoke"')
    NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
    errors = {
        cell.metadata.nbgrader.grade_id: output.ename
        for cell in code
        for output in cell.outputs
        if output.output_type == "error"
    }
    tests = Lesson(ROOT / "lessons" / f"{name}.py").tests
    assert set(errors) == set(tests)
    assert set(errors.values()) == {"NotImplementedError"}
