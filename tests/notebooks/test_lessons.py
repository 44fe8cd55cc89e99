"""The course's own notebooks: in step with their sources, and they run."""

import ast
import re
import shutil
import subprocess
import sys

import jupytext
import nbformat
import pytest

import gallery
import lessons
import static_site
from helpers import ROOT

SOURCES = lessons.sources(ROOT)
by_name = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


def cells(source, kind):
    notebook = jupytext.read(source, fmt="py:percent")
    return [cell for cell in notebook.cells if cell.cell_type == kind]


def test_notebooks_agree_with_their_sources(capsys):
    assert lessons.main(["check"]) == 0, capsys.readouterr().out


@by_name
def test_parameters_are_literals_that_papermill_can_replace(source):
    (cell,) = [c for c in cells(source, "code") if "parameters" in c.metadata.get("tags", [])]
    values = {}
    for statement in ast.parse(cell.source).body:
        assert isinstance(statement, ast.Assign), ast.unparse(statement)
        values[statement.targets[0].id] = ast.literal_eval(statement.value)
    assert values["size"] == "reader"


@by_name
def test_links_lead_to_files_that_are_there(source):
    folder = lessons.notebook_path(source, ROOT).parent
    for cell in cells(source, "markdown"):
        for target in re.findall(r"\]\(([^)#:]+)\)", cell.source):
            assert (folder / target).exists(), f"{source.name} links to {target}"


# Lessons 1 and 2 run in JupyterLab (tests/browser), and what goes deeper than these in the pipeline (tests/grading). What is expected here does not depend on the machine: a factor, an
# answer.
EXPECTED = {
    "Start_Here": ("% of the held-out images that are right: no guess · outcome: ", "questions answered, "),
    "3.Multi-GPU": ("largest difference ÷ largest weight: no guess · outcome: ",),
    "3b.Strategies-in-Depth": ("times the single device's gradient: no guess · outcome: 2",),
    "3c.Scaling-in-Depth": (),
    "3d.Text-and-Loops": ("agrees with a single device: True",),
    "3e.Failures-in-Depth": ("minutes between checkpoints: no guess · outcome: 19",),
    "4.Convergence": (),
    "4b.Convergence-in-Depth": (),
    "5.Challenge": ("a trial, which does not count",),
    "6.Sharding": ("% of all cells are idle: no guess · outcome: 27",),
    "6b.Sharding-in-Depth": ("the GPUs of a host: no guess · outcome: 8",),
    "5b.Challenge-in-Depth": ("of four are flagged: no guess · outcome: 3",),
}


def marked(name):
    """Start_Here belongs to every full run; what lessons launch and show is looked at by tests of its own."""
    mark = pytest.mark.slow if name == "Start_Here" else pytest.mark.nightly(f"grading/source/{name}/*")
    return pytest.param(name, marks=mark)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", [marked(name) for name in EXPECTED])
def test_a_lesson_runs_headlessly_at_smoke_size_with_all_answers(name, capsys, monkeypatch):
    monkeypatch.delenv("DDL_WARM")  # as readers have it
    assert lessons.main(["run", name]) == 0, capsys.readouterr().out
    executed = nbformat.read(ROOT / "build" / f"{name}.ipynb", as_version=4)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", ())]
    assert [o.evalue for o in outputs if o.output_type == "error"] == []  # tests may raise, too
    texts = [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]
    for text in EXPECTED[name]:
        assert text in "\n".join(texts)


def path_of(name):
    return lessons.notebook_path(ROOT / "grading" / "source" / name / f"{name}.py", ROOT)


def in_build(name):
    """A lesson's execution in build/, from the tests above or another time; Start_Here takes seconds."""
    path = path_of(name)
    return gallery.executed(path, ROOT) or (name == "Start_Here" and lessons.main(["run", name]) == 0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_executed_lessons_are_a_site_that_loads_nothing_from_elsewhere(tmp_path):
    there = [name for name in EXPECTED if in_build(name)]
    shown = {each.path.stem: each for each in gallery.build(ROOT, tmp_path / "site")}
    assert static_site.faults(tmp_path / "site") == []
    assert {*there, "Start_Here"} <= {name for name, each in shown.items() if each.note != "not executed"}
    assert [name for name in there if name != "Start_Here" and not gallery.figure(shown[name])[2]] == []
    assert [page for page in (tmp_path / "site").rglob("*.html") if str(ROOT) in page.read_text()] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_lesson_is_printed_with_its_figures_and_an_outline():
    if not shutil.which("chromium"):
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    name = next(name for name in ("5.Challenge", "Start_Here") if in_build(name))
    # In a process of its own: the browser's library allows no second one beside the other tests'.
    command = [sys.executable, ROOT / "tools" / "gallery.py", "pdf", name]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert printed.returncode == 0, printed.stdout + printed.stderr
    data = (ROOT / "build" / f"{name}.pdf").read_bytes()
    assert data.startswith(b"%PDF-") and data.rstrip().endswith(b"%%EOF")
    shown = gallery.lesson(path_of(name), ROOT)
    figures = (ROOT / "build" / f"{name}.html").read_text().count('class="ddl-picture"')
    assert data.count(b"/S /Figure") >= figures and data.count(b"/Alt") >= figures  # each with its words
    assert data.count(b"/Type /Page\n") >= figures / 2
    titles = re.findall(r"^#{1,3} ([\w., -]+)$", shown.text, re.MULTILINE)
    assert [title for title in titles if f"/Title ({title})".encode() not in data] == []
    assert len(titles) > 2
