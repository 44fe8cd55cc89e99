"""Lessons with questions: these fit together, and the lesson runs when none is answered."""

import ast
import functools
import re
from collections import Counter
from dataclasses import dataclass

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient

import lessons
from ddl.grader.cells import names_in
from ddl.grader.hints import steps_of
from helpers import ROOT


@dataclass(frozen=True)
class Graded:
    """A lesson's source, and what must hold of it."""

    name: str
    questions: int
    points: int
    sections: int
    guessing: int  # the first section that asks for a guess: those before it only explain
    packages: tuple = ()  # that tests may import besides math and numpy

    @property
    def source(self):
        return ROOT / "grading" / "source" / self.name / f"{self.name}.py"

    @functools.cached_property
    def cells(self):
        return jupytext.read(self.source, fmt="py:percent").cells

    @functools.cached_property
    def graded(self):
        return {c.metadata.nbgrader.grade_id: c for c in self.cells if "nbgrader" in c.metadata}

    @functools.cached_property
    def tests(self):
        return {name: cell for name, cell in self.graded.items() if name.endswith("_test")}

    def answer_to(self, name):
        """The answer before a test: a script has several tests, each for a mistake of its own."""
        order = list(self.graded)
        return [answer for answer in order[: order.index(name) + 1] if answer in self.answers][-1]

    @functools.cached_property
    def prompts(self):
        return {name: cell for name, cell in self.graded.items() if name.endswith("_prompt")}

    @functools.cached_property
    def answers(self):
        return {n: c for n, c in self.graded.items() if c.metadata.nbgrader.solution}

    def asked(self):
        """Names that answers define."""
        code = [
            cell.source
            for cell in self.answers.values()
            if cell.cell_type == "code" and not cell.source.startswith("%%")
        ]
        trees = [node for source in code for node in ast.parse(source).body]
        assigned = {node.targets[0].id for node in trees if isinstance(node, ast.Assign)}
        return assigned | {node.name for node in trees if isinstance(node, ast.FunctionDef)}


DRIVERS = ("ddl.analysis.ring",)
LESSONS = (
    Graded("1.Gradient-Basics", questions=14, points=35, sections=18, guessing=1, packages=DRIVERS),
    Graded("2.System-Topology", questions=13, points=41, sections=8, guessing=1, packages=DRIVERS),
    Graded("3.Multi-GPU", questions=16, points=49, sections=14, guessing=2, packages=("json", "ddl.grader")),
    Graded("4.Convergence", questions=8, points=26, sections=11, guessing=1),
    Graded("5.Challenge", questions=6, points=20, sections=8, guessing=1, packages=("itertools",)),
)
each_lesson = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)


def points(cell):
    return cell.metadata.nbgrader.get("points", 0)


def tags(cell):
    return cell.metadata.get("tags", [])


@each_lesson
def test_ids_are_unique_and_every_graded_cell_is_of_a_known_kind(lesson):
    graded = lesson.graded
    assert len(graded) == sum("nbgrader" in cell.metadata for cell in lesson.cells)
    assert set(graded) == set(lesson.tests) | set(lesson.prompts) | set(lesson.answers)
    assert all(re.fullmatch(r"q\d\d_[a-z_]+", name) for name in graded)
    numbers = range(1, lesson.questions + 1)
    assert {f"q{number:02}" for number in numbers} == {name[:3] for name in graded}


@each_lesson
def test_every_test_and_every_prompt_has_its_answer_cell(lesson):
    tested = {n for n, cell in lesson.answers.items() if not cell.metadata.nbgrader.grade}
    read = set(lesson.answers) - tested
    assert {lesson.answer_to(name) for name in lesson.tests} == tested
    assert {name.removesuffix("_prompt") for name in lesson.prompts} == read
    order = list(lesson.graded)
    for name in tested:
        assert order.index(f"{name}_test") == order.index(name) + 1
        assert lesson.answers[name].cell_type == "code"
    for name in read:
        assert order.index(f"{name}_prompt") == order.index(name) - 1


@each_lesson
def test_points_are_those_that_the_text_says(lesson):
    said = [
        int(number)
        for cell in lesson.cells
        if cell.cell_type == "markdown"
        for number in re.findall(r"\*\*Question[^*]*\*\* \((\d+) points?\)", cell.source)
    ]
    given = Counter()
    for name, cell in lesson.graded.items():
        if cell.metadata.nbgrader.grade:
            given[lesson.answer_to(name)] += points(cell)
    given = list(given.values())
    assert said == given and sum(given) == lesson.points
    assert all(cell.metadata.nbgrader.grade is False for cell in lesson.prompts.values())


@each_lesson
def test_every_question_that_is_read_has_a_rubric_and_a_model_answer(lesson):
    for name, prompt in lesson.prompts.items():
        assert "=== BEGIN MARK SCHEME ===" in prompt.source and prompt.metadata.nbgrader.locked
        assert "### BEGIN SOLUTION" in lesson.graded[name.removesuffix("_prompt")].source


@each_lesson
def test_every_test_has_a_hidden_part_and_imports_nothing_heavy(lesson):
    allowed = {"math", "numpy", *lesson.packages}
    for cell in lesson.tests.values():
        assert "### BEGIN HIDDEN TESTS" in cell.source and cell.metadata.nbgrader.locked
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed
            if isinstance(node, ast.ImportFrom):
                assert node.module in allowed


@each_lesson
def test_no_float_is_compared_with_equality(lesson):
    for name, cell in lesson.tests.items():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                literals = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                assert not any(isinstance(value, float) for value in literals), name


@each_lesson
def test_cells_that_only_show_are_marked_so_and_need_no_answer(lesson):
    asked = lesson.asked()
    assert asked
    for cell in lesson.cells:
        if cell.cell_type == "code" and "demo" in tags(cell):
            names = {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)}
            assert not names & asked and "nbgrader" not in cell.metadata
        elif cell.cell_type == "code":
            assert not re.search(r"launch\(|plot_|from ddl import", cell.source), cell.source


@each_lesson
def test_what_tests_define_is_nothing_that_other_cells_use(lesson):
    """They run in the reader's kernel, where a name of theirs would take another's place."""
    theirs = {}  # names that mean now what a test made of them
    for cell in lesson.cells:
        if cell.cell_type != "code" or cell.source.startswith("%%"):
            continue
        uses, defines = names_in(cell.source)
        if cell in lesson.tests.values():
            imported = {
                alias.asname or alias.name
                for node in ast.walk(ast.parse(cell.source))
                if isinstance(node, (ast.Import, ast.ImportFrom))
                for alias in node.names
            }
            theirs |= dict.fromkeys(defines - imported, cell.metadata.nbgrader.grade_id)
        else:
            taken = {name: theirs[name] for name in (uses - defines) & set(theirs)}
            assert taken == {}, cell.source
            theirs = {name: test for name, test in theirs.items() if name not in defines}


@each_lesson
def test_every_tested_question_has_a_nudge_an_idea_and_a_first_line_and_none_gives_the_answer(lesson):
    found = lessons.hints(lesson.source.read_text())
    tested = {name for name, cell in lesson.answers.items() if not cell.metadata.nbgrader.grade}
    assert set(found) == tested and {len(steps) for steps in found.values()} == {3}
    for name, (nudge, idea, line) in found.items():
        assert max(len(nudge.split()), len(idea.split())) <= 80, name
        assert re.fullmatch(r"`[^`]+`", line) and ast.parse(line.strip("`")).body, name
        blocks = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", lesson.answers[name].source, re.DOTALL)
        answer = ["".join(row.split()) for block in blocks for row in block.splitlines() if row.strip()]
        given = "".join(f"{nudge}{idea}{line}".split())
        assert not all(row in given for row in answer), name


@each_lesson
def test_what_people_are_handed_has_no_hint_in_plain_text(lesson):
    text = lessons.convert(lesson.source.read_text()) + (ROOT / lessons.HINTS).read_text()
    for question, steps in steps_of(lesson.name).items():
        assert steps == lessons.hints(lesson.source.read_text())[question]
        assert not any(step[:40] in text for step in steps[:2])


@each_lesson
def test_every_section_asks_for_a_guess_and_shows_it(lesson):
    sections, guesses = 0, {}
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            sections += len(re.findall(r"^## \d+\.", cell.source, re.MULTILINE))
        for name in re.findall(r"^(guess_\w+) = None", cell.source, re.MULTILINE):
            guesses[name] = sections
    assert sections == lesson.sections
    assert set(guesses.values()) == set(range(lesson.guessing, sections + 1))
    code = "\n".join(cell.source for cell in lesson.cells if cell.cell_type == "code")
    assert all(len(re.findall(rf"beside\(\s*{name},", code)) == 1 for name in guesses)


# ---------------------------------------------------------------- executed


def execute(notebook, monkeypatch):
    """Run a notebook as JupyterLab's `Run All` does; return the errors by cell."""
    monkeypatch.chdir(ROOT / "notebooks")
    for cell in notebook.cells:
        if "parameters" in tags(cell):
            cell.source = cell.source.replace('"reader"', '"smoke"')
    NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    return {
        cell.metadata.nbgrader.grade_id: output.ename
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    }


@pytest.mark.nightly("grading/source/1*")
def test_as_handed_out_it_runs_to_its_end_and_only_the_tests_fail(monkeypatch):
    lesson = LESSONS[0]  # the others' runs take minutes: tests/browser runs them so
    released = nbformat.read(ROOT / "notebooks" / f"{lesson.name}.ipynb", as_version=4)
    errors = execute(released, monkeypatch)
    assert set(errors) == set(lesson.tests) | {"q03_table", "q10_table"}
    assert set(errors.values()) == {"NotImplementedError", "NameError"}
