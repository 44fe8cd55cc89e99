"""Lesson 1: its questions fit together, and it runs with all answers and with none."""

import ast
import re
from pathlib import Path

import jupytext
import lessons
import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "grading" / "source" / "1.Gradient-Basics" / "1.Gradient-Basics.py"
CELLS = jupytext.read(SOURCE, fmt="py:percent").cells
GRADED = {c.metadata.nbgrader.grade_id: c for c in CELLS if "nbgrader" in c.metadata}
TESTS = {name: cell for name, cell in GRADED.items() if name.endswith("_test")}
PROMPTS = {name: cell for name, cell in GRADED.items() if name.endswith("_prompt")}
ANSWERS = {name: cell for name, cell in GRADED.items() if cell.metadata.nbgrader.solution}


def points(cell):
    return cell.metadata.nbgrader.get("points", 0)


def tags(cell):
    return cell.metadata.get("tags", [])


def test_ids_are_unique_and_every_graded_cell_is_of_a_known_kind():
    assert len(GRADED) == sum("nbgrader" in cell.metadata for cell in CELLS)
    assert set(GRADED) == set(TESTS) | set(PROMPTS) | set(ANSWERS)
    assert all(re.fullmatch(r"q\d\d_[a-z_]+", name) for name in GRADED)
    assert {f"q{number:02}" for number in range(1, 15)} == {name[:3] for name in GRADED}


def test_every_test_and_every_prompt_has_its_answer_cell():
    coded = {name for name, cell in ANSWERS.items() if cell.cell_type == "code"}
    written = set(ANSWERS) - coded
    assert {name.removesuffix("_test") for name in TESTS} == coded
    assert {name.removesuffix("_prompt") for name in PROMPTS} == written
    order = list(GRADED)
    for name in coded:
        assert order.index(f"{name}_test") == order.index(name) + 1
    for name in written:
        assert order.index(f"{name}_prompt") == order.index(name) - 1


def test_points_are_those_that_the_text_says():
    said = [int(number) for cell in CELLS if cell.cell_type == "markdown"
            for number in re.findall(r"\*\*Question[^*]*\*\* \((\d+) points?\)", cell.source)]
    given = [points(cell) for cell in GRADED.values() if cell.metadata.nbgrader.grade]
    assert said == given and sum(given) == 35
    assert all(cell.metadata.nbgrader.grade is False for cell in PROMPTS.values())


def test_every_written_question_has_a_rubric_and_a_model_answer():
    for name, prompt in PROMPTS.items():
        assert "=== BEGIN MARK SCHEME ===" in prompt.source and prompt.metadata.nbgrader.locked
        assert "### BEGIN SOLUTION" in GRADED[name.removesuffix("_prompt")].source


def test_every_test_has_a_hidden_part_and_imports_nothing_heavy():
    for cell in TESTS.values():
        assert "### BEGIN HIDDEN TESTS" in cell.source and cell.metadata.nbgrader.locked
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {"math", "numpy"}
            if isinstance(node, ast.ImportFrom):
                assert node.module == "ddl.ring"


def test_no_float_is_compared_with_equality():
    for name, cell in TESTS.items():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                literals = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                assert not any(isinstance(value, float) for value in literals), name


def test_cells_that_only_show_are_marked_so_and_need_no_answer():
    asked = {"loss_mse", "grad_point", "grad_multi", "train_loop", "train_loop_batches",
             "worker_gradient", "average_gradients", "train_loop_distributed", "split",
             "chunk_to_send", "combine"}
    for cell in CELLS:
        if cell.cell_type == "code" and "demo" in tags(cell):
            names = {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)}
            assert not names & asked and "nbgrader" not in cell.metadata
        elif cell.cell_type == "code":
            assert not re.search(r"launch\(|plot_|from ddl import", cell.source), cell.source


def test_every_section_asks_for_a_guess_and_shows_it():
    sections, guesses = 0, {}
    for cell in CELLS:
        if cell.cell_type == "markdown":
            sections += len(re.findall(r"^## \d+\.", cell.source, re.MULTILINE))
        for name in re.findall(r"^(guess_\w+) = None", cell.source, re.MULTILINE):
            guesses[name] = sections
    assert sections == 11 and set(guesses.values()) == set(range(1, 12))
    code = "\n".join(cell.source for cell in CELLS if cell.cell_type == "code")
    assert all(code.count(f"beside({name},") == 1 for name in guesses)


# ---------------------------------------------------------------- executed


def execute(notebook, monkeypatch):
    """Run a notebook as JupyterLab's `Run All` does; return the errors by cell, and all texts."""
    monkeypatch.chdir(ROOT / "notebooks")
    for cell in notebook.cells:
        if "parameters" in tags(cell):
            cell.source = cell.source.replace('"reader"', '"smoke"')
    NotebookClient(notebook, kernel_name="python3", timeout=300).execute()
    outputs = [(cell, output) for cell in notebook.cells if cell.cell_type == "code"
               for output in cell.outputs]
    errors = {cell.metadata.nbgrader.grade_id: output.ename
              for cell, output in outputs if output.output_type == "error"}
    texts = [output.get("text") or output.get("data", {}).get("text/plain", "")
             for _, output in outputs]
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    return errors, "\n".join(texts)


@pytest.mark.slow
def test_with_all_answers_it_runs_without_an_error(monkeypatch):
    errors, texts = execute(lessons.master(SOURCE.read_text()), monkeypatch)
    assert errors == {}
    assert "no guess made · came out: 0.1333" in texts  # of learning rates: 1 / mean(x²)
    assert "numbers sent by each rank: no guess made · came out: 1500" in texts


@pytest.mark.slow
def test_as_handed_out_it_runs_to_its_end_and_only_the_tests_fail(monkeypatch):
    released = nbformat.read(ROOT / "notebooks" / "1.Gradient-Basics.ipynb", as_version=4)
    errors, texts = execute(released, monkeypatch)
    assert set(errors) == set(TESTS) | {"q03_table", "q10_table"}
    assert set(errors.values()) == {"NotImplementedError", "NameError"}
    assert "numbers sent by each rank: no guess made · came out: 1500" in texts


# ---------------------------------------------------------------- examined

WRONG = {
    "no check for an empty data set": ("q04_loss_mse", "if not dataset:", "if False:"),
    "a sum, not a mean": ("q04_loss_mse", " / len(dataset)", ""),
    "N left out": ("q05_gradients", "* (y - m * x) / N", "* (y - m * x)"),
    "N of the exercise for all": ("q05_gradients", "len(data))", "4)"),
    "no wrap-around but the last point": (
        "q06_train_loop", "dataset[iteration % len(dataset)]",
        "dataset[min(iteration, len(dataset) - 1)]"),
    "one iteration too many": ("q06_train_loop", "range(iterations)", "range(iterations + 1)"),
    "up the slope": ("q06_train_loop", "m - lr", "m + lr"),
    "the first batch for ever": ("q11_train_loop_batches", "iteration % len(dataset)", "0"),
    "gradients added up": ("q12_distributed", "sum(gradients) / len(gradients)", "sum(gradients)"),
    "two workers always": ("q12_distributed", "/ len(gradients)", "/ 2"),
    "all points of all workers in one batch": (
        "q12_distributed", "average_gradients(own)",
        "grad_multi(m, [p for s in shards for p in s[i % len(s)]])"),
    "the first shard's length for all": ("q12_distributed", "s[i % len(s)]",
                                         "s[i % len(shards[0])]"),
    "the rest dropped": ("q13_split", "size + (rank < larger)", "size"),
    "the larger ones last": ("q13_split", "rank < larger", "rank >= ranks - larger"),
    "the wrong way round": ("q14_ring", "rank - step", "rank + step"),
    "adds for ever": ("q14_ring", "mine + received if step < ranks - 1 else received",
                      "mine + received"),
    "four ranks only": ("q14_ring", "ranks - 1 else", "3 else"),
    "a wrong prediction": ("q03_table", "[2, 4, 6, 8]", "[2, 4, 6, 7]"),
    "a loss that is not divided": ("q03_table", "table_loss_mse = 7.5", "table_loss_mse = 30"),
    "batches added up": ("q10_table", "[8, 22]", "[16, 44]"),
    "divided by N": ("q10_table", "[4, 12, 30, 14]", "[1, 3, 7.5, 3.5]"),
}


def passed(notebook):
    from ddl.exam import examine

    return {v.grade_id.removesuffix("_test"): v.passed
            for v in examine(notebook, hidden=True).verdicts}


def test_the_model_answers_pass_every_test():
    verdicts = passed(lessons.master(SOURCE.read_text()))
    assert set(verdicts) == {name.removesuffix("_test") for name in TESTS}
    assert all(verdicts.values()), verdicts


@pytest.mark.parametrize("answer, right, wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_answer_fails_its_own_question(answer, right, wrong):
    notebook = lessons.master(SOURCE.read_text())
    (cell,) = [cell for cell in notebook.cells
               if cell.metadata.get("nbgrader", {}).get("grade_id") == answer]
    assert cell.source.count(right) == 1, f"{right!r} is not what the model answer says"
    cell.source = cell.source.replace(right, wrong)
    verdicts = passed(notebook)
    assert verdicts.pop(answer) is False
    # Later questions build on the gradients, and on nothing else.
    assert all(verdicts.values()) or answer in ("q05_gradients", "q04_loss_mse")
