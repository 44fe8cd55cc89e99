"""What the course shows, for people who read in the dark, or by ear."""

import re
from importlib.resources import files

import nbformat
import pytest
from nbconvert import HTMLExporter

from ddl.display.style import STYLE
from helpers import ROOT

pytestmark = pytest.mark.slow
pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
# Of axe's rules, those about a whole page are for who makes the page.
WHOLE_PAGE = ("region", "landmark-one-main", "page-has-heading-one", "bypass", "document-title", "html-has-lang")


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


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_text_of_all_lessons_is_accessible(browser, theme):
    notebooks = [ROOT / "Start_Here.ipynb", *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    cells = [
        cell for path in notebooks for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "markdown"
    ]
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
