"""Accessibility of the course's output: dark theme, zoom, keyboard and screen readers."""

import json
import re
import shutil
from importlib.resources import files
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter

from ddl.display.style import STYLE
from doubling import STUBS, write_lesson
from helpers import IN_THE_LAB, ROOT

pytestmark = pytest.mark.nightly(*IN_THE_LAB)
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
QUICK = Path(__file__).with_name("quick_train.py")
THEMES = ("JupyterLab Light", "JupyterLab Dark")
# Of axe's rules, those about a whole page are for who makes the page.
WHOLE_PAGE = ("region", "landmark-one-main", "page-has-heading-one", "bypass", "document-title", "html-has-lang")
EVERY_KIND = (  # of what the course shows
    "from course import compare_guess, plot, recorded\nfrom ddl import compare, doctor, launch, runs",
    "configurations = recorded('convergence-cifar10')\n"
    "plot.plot_convergence([run for run in configurations if run.name in ('small batch + BN', 'LARS')])",
    "plot.plot_ring(3)",
    "compare(configurations)",
    "compare_guess(3, 4.5, 'points that `it` is ahead')",
    "doctor()",
    "launch('quick_train.py', name='done', epochs=2)",
    "try:\n    launch('quick_train.py', name='fails', epochs=5, fail_at_epoch=1)\nexcept RuntimeError as error:\n"
    "    print(error)",
    "runs()",
    "import os\nfrom course.lab.check import check_file\ncheck_file('notebooks/7.Doubling.ipynb')",
    "launch('quick_train.py', name='goes on', epochs=5000)",
)


def violations(page, where):
    """Return what axe finds wrong in parts of a page."""
    page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    disabled = {name: {"enabled": False} for name in WHOLE_PAGE}
    found = page.evaluate("([include, rules]) => axe.run({include}, {rules})", [where, disabled])
    return [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.fixture
def course(start_lab, tmp_path):
    """A server with every kind of output in a notebook, all of them in the page at once."""
    settings = tmp_path / "settings" / "@jupyterlab" / "notebook-extension" / "tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"windowingMode": "none"}))
    lab = start_lab(tmp_path)
    shutil.copy(QUICK, lab.root)
    shutil.copytree(ROOT / "images", lab.root / "images")
    write_lesson(lab.root, STUBS)
    path = lab.notebook("every kind.ipynb", EVERY_KIND)
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell("# Every kind\n\n![two rings](images/ring.svg)"))
    nbformat.write(notebook, path)
    return lab, path


def test_outputs_are_accessible_in_both_themes(course, open_notebook):
    lab, path = course
    tab = open_notebook(path, width=1280, height=720, server=lab)
    page = tab.page
    tab.run_all()
    page.locator(".jp-CodeCell").last.locator(".ddl-stop:visible").wait_for(timeout=120_000)
    for cell in page.locator(".jp-Cell").all():  # JupyterLab draws what is looked at
        cell.scroll_into_view_if_needed()
        page.wait_for_timeout(200)
    kinds = (".ddl-picture", ".ddl-doctor", ".ddl-failure", ".ddl-done", ".ddl-stop", ".jp-RenderedMarkdown img")
    for kind in kinds:
        page.locator(kind).first.wait_for(state="attached", timeout=10_000)
    problems = []
    for theme in THEMES:
        choose(page, theme)
        page.wait_for_timeout(500)
        problems += violations(page, [[".jp-OutputArea-output"], [".jp-RenderedMarkdown"]])
        tab.screenshot(f"accessible-{theme.split()[1].lower()}")
    assert not problems, "\n".join(problems)
    page.locator(".ddl-run").evaluate("panel => { panel.tabIndex = -1; panel.focus() }")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "ddl-stop"
    page.set_viewport_size({"width": 640, "height": 360})  # as 1280 × 720 is at 200 %
    page.wait_for_timeout(500)
    assert not tab.widens_the_page()
    page.locator(".ddl-stop").click()
    page.locator(".ddl-stopped").first.wait_for(timeout=30_000)


def choose(page, theme):
    page.locator(".lm-MenuBar-itemLabel", has_text="Settings").click()
    page.locator(".lm-Menu-itemLabel:text-is('Theme')").hover()
    page.locator(f".lm-Menu-itemLabel:text-is('{theme}')").click()
    page.locator(f"body[data-jp-theme-name='{theme}']").wait_for(state="attached")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_of_all_lessons_is_accessible(browser, theme):
    notebooks = [ROOT / "Start_Here.ipynb", *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    cells = [cell for path in notebooks for cell in nbformat.read(path, as_version=4).cells]
    # Anew, as one notebook's cells have ids of their own.
    cells = [nbformat.v4.new_markdown_cell(cell.source) for cell in cells if cell.cell_type == "markdown"]
    assert len(cells) > 300
    html, _ = HTMLExporter(template_name="lab", theme=theme).from_notebook_node(nbformat.v4.new_notebook(cells=cells))
    page = browser.new_page()
    try:
        html = html.replace("</head>", f"{STYLE}</head>", 1)  # as an output of the lesson's brings it
        page.set_content(re.sub(r"<script\b.*?</script>", "", html, flags=re.DOTALL), wait_until="domcontentloaded")
        problems = violations(page, [[".jp-RenderedMarkdown"]])
        assert not problems, "\n".join(problems)
    finally:
        page.close()
