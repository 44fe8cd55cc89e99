"""Lessons in a real JupyterLab: open, run all cells, look. The others run headlessly (tests/notebooks, tests/slurm)."""

import shutil

import nbformat
import pytest

import lessons
from helpers import ROOT


@pytest.fixture
def lesson(lab):
    """Return a function that puts a lesson at smoke size on the server, `solved` with its model answers."""

    def copy(name, solved=False):
        shutil.copytree(ROOT / "images", lab.root / "images", dirs_exist_ok=True)
        path = lab.root / name
        if solved:
            notebook = lessons.master(lessons.source_of(path, ROOT).read_text())
        else:
            notebook = nbformat.read(ROOT / name, as_version=4)
        parameters = next(c for c in notebook.cells if "parameters" in c.metadata.get("tags", ()))
        assert 'size = "reader"' in parameters.source
        parameters.source = parameters.source.replace('size = "reader"', 'size = "smoke"')
        path.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, path)
        return path

    return copy


def run_all(open_notebook, path, timeout_s):
    tab = open_notebook(path, width=1280)
    tab.run_all()
    tab.page.locator(".ddl-training").first.wait_for(timeout=180_000)
    tab.screenshot(f"{path.stem}-live")
    saved = tab.wait_until_idle(timeout_s)
    assert saved.errors == []
    assert all(cell.execution_count for cell in saved.code), "not every cell was executed"
    assert not tab.widens_the_page()
    return saved


def test_start_here(open_notebook, lesson):
    saved = run_all(open_notebook, lesson("Start_Here.ipynb"), 240)
    html = saved.html
    assert any("Ready: everything that is needed is here" in text for text in html)
    assert any("done in" in text and "<svg" in text for text in html)


def check_answers(tab, last):
    """Press the button that checks one's answers, and return what it says when it is done."""
    button = tab.page.get_by_role("button", name="Check my answers").last
    button.scroll_into_view_if_needed()
    table = tab.page.locator(".jp-OutputArea", has=button).last
    assert "object>" not in table.inner_text()  # before anything has been checked, nothing stands below
    button.click()
    table.get_by_text(last).wait_for(timeout=60_000)
    tab.screenshot(f"{tab.path.stem}-checked")
    # Opened again, a saved button would be an error, as its kernel is gone.
    assert "jupyter.widget-view" not in tab.path.read_text()
    return table.inner_text()


@pytest.mark.nightly("lessons/1*")
def test_gradient_basics(open_notebook, lesson):
    tab = open_notebook(lesson("notebooks/1.Gradient-Basics.ipynb", solved=True), width=1280)
    tab.run_all()
    saved = tab.wait_until_idle(240)
    assert saved.errors == []
    assert not tab.widens_the_page()
    pictures = [text for text in saved.html if 'class="ddl-picture"' in text]
    assert len(pictures) == 5 and all('alt="' in text for text in pictures)
    # These do not depend on the machine: limits of learning rates, and steps.
    assert "steps of single points: 115, of batches of 16: 6" in saved.printed
    assert "2 of 2" in check_answers(tab, "question 2")


@pytest.mark.nightly("lessons/2*", "source_code/course/topology/scripts/bench_*.py")
@pytest.mark.timeout(1200)
def test_system_topology(open_notebook, lesson):
    saved = run_all(open_notebook, lesson("notebooks/2.System-Topology.ipynb", solved=True), 900)
    assert sum(text.count("done in") for text in saved.html) == 5
    pictures = [text for text in saved.html if 'class="ddl-picture"' in text]
    assert len(pictures) == 4 and all('alt="' in text for text in pictures)


@pytest.mark.slow
def test_recipes_scroll_instead_of_breaking_words(lab, open_notebook):
    """JupyterLab has rules for <pre> of its own."""
    tab = open_notebook(lab.notebook("tabs.ipynb", ["from course import Tabs\nTabs({'loop': 'recipe_loop.py'})"]), 900)
    tab.run_all()
    shown = tab.page.locator(".ddl-tabs pre").first
    shown.wait_for(timeout=60_000)
    tab.screenshot("tabs")
    style = shown.evaluate("pre => (({whiteSpace, wordBreak}) => [whiteSpace, wordBreak])(getComputedStyle(pre))")
    assert style == ["pre", "normal"] and not tab.widens_the_page()
    assert shown.evaluate(
        "pre => pre.scrollWidth > pre.clientWidth && parseFloat(getComputedStyle(pre).paddingLeft) > 4"
    )
