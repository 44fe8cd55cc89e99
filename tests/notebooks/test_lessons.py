"""The course's own notebooks: in step with their sources, and they run."""

import ast
import functools
import re

import jupytext
import nbformat
import pytest

import clock
import lessons
from helpers import ROOT

SOURCES = lessons.sources(ROOT)
by_name = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


@functools.cache
def all_cells(source):
    return jupytext.read(source, fmt="py:percent").cells


def cells(source, kind):
    return [cell for cell in all_cells(source) if cell.cell_type == kind]


@by_name
def test_parameters_are_literals_that_papermill_can_replace(source):
    (cell,) = [c for c in cells(source, "code") if "parameters" in c.metadata.get("tags", [])]
    values = {}
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign), ast.unparse(statement)
        values[statement.targets[0].id] = ast.literal_eval(statement.value)
    assert values["size"] == "reader"


@by_name
def test_links_lead_to_existing_files(source):
    folder = lessons.notebook_path(source, ROOT).parent
    for cell in cells(source, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
            assert (folder / target).exists(), f"{source.name} links to {target}"


@by_name
def test_lesson_is_within_its_limits(source):
    assert source.stem == lessons.HOME or clock.beyond(source) == []


def test_lesson_beyond_its_limits_is_named(tmp_path):
    (tmp_path / "7.Long.py").write_text(
        "# %% [markdown]\n# # Long\n#\n# | time | 20 minutes |\n#\n# ## 1. Words\n#\n"
        + "# so many words\n" * 4000
        + "\n# %%\nlong = 1\n"
    )
    found = clock.beyond(tmp_path / "7.Long.py")
    assert [problem.split()[1] for problem in found] == ["minutes", "words", "doing:", "20"]


@by_name
def test_each_guess_is_compared_at_a_cells_end(source):
    """`compare_guess` returns what is shown, and a cell shows only its last expression."""
    for cell in cells(source, "code"):
        if "compare_guess(" not in cell.source or cell.source.startswith("%%"):
            continue
        *before, last = ast.parse(cell.source).body
        assert not any("compare_guess(" in ast.unparse(node) for node in before if not isinstance(node, ast.ImportFrom))
        shown = isinstance(last, ast.Expr) and ast.unparse(last.value).startswith(("compare_guess(", "display("))
        assert shown or isinstance(last, ast.ImportFrom), cell.source


# Lessons 1 and 2 run in JupyterLab (tests/browser), and what goes deeper than these in the pipeline (tests/grading).
# The expected texts do not depend on the machine: a factor, an answer.
EXPECTED = {
    "Start_Here": ("% of the held-out images that are right: no guess · outcome: ", "questions answered, "),
    "3.Multi-GPU": ("largest difference ÷ largest weight: no guess · outcome: ",),
    "3b.Strategies-in-Depth": ("ways with the same weights: no guess · outcome: 4",),
    "3c.Scaling-in-Depth": (),
    "3d.Text-and-Loops": ("points off: no guess · outcome: 15.9",),
    "3e.Failures-in-Depth": ("minutes between checkpoints: no guess · outcome: 19",),
    "3f.Bets": ("mean of 0, 3, 3 and 3: no guess · outcome: 1.5", "0 of 15 bets right", "8 of 8 points"),
    "4.Convergence": (),
    "4b.Convergence-in-Depth": (),
    "4c.Rules-and-Layers": (),
    "5.Challenge": ("a trial, which does not count",),
    "6.Sharding": ("% of all cells are idle: no guess · outcome: 27",),
    "6b.Sharding-in-Depth": ("% idle: no guess · outcome: 27",),
    "6c.Sharding-in-Practice": ("the GPUs of a host: no guess · outcome: 8", "resumed at 6"),
    "5b.Challenge-in-Depth": ("of four are flagged: no guess · outcome: 3",),
}


def marked(name):
    """Start_Here belongs to every full run; what lessons launch and show is looked at by tests of its own."""
    mark = pytest.mark.slow if name == "Start_Here" else pytest.mark.nightly(f"lessons/{name}.py")
    return pytest.param(name, marks=mark)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [marked(name) for name in EXPECTED])
def test_lesson_runs_headlessly_with_model_answers(name, capsys, monkeypatch):
    monkeypatch.delenv("DDL_WARM")  # as readers have it
    assert lessons.main(["run", name]) == 0, capsys.readouterr().out
    executed = nbformat.read(ROOT / "build" / f"{name}.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert [o.evalue for o in outputs if o.output_type == "error"] == []  # tests may raise, too
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    for text in EXPECTED[name]:
        assert text in "\n".join(texts)
    assert [
        text for text in texts if "computes in place of your" in text
    ] == []  # a model answer that `working` rejects
