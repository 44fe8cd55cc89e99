"""The site of lessons in a browser: light and dark, and buttons that copy."""

from pathlib import Path

import nbformat
import pytest

import gallery
from helpers import ROOT

pytestmark = pytest.mark.slow
WRITTEN = "Object.defineProperty(navigator, 'clipboard', {value: {writeText: text => { window.written = text }}})"


def test_a_page_is_dark_where_the_reader_is_and_copies_code(browser, tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# One\n\n## Two"), nbformat.v4.new_code_cell("print(1)\nprint(2)")]
    gallery.write(gallery.Lesson(nbformat.v4.new_notebook(cells=cells), Path("one.ipynb"), ""), tmp_path, ROOT)
    context = browser.new_context(color_scheme="dark", viewport={"width": 1280, "height": 700})
    page = context.new_page()
    page.add_init_script(WRITTEN)
    try:
        page.goto((tmp_path / "one.html").as_uri())
        colours = []
        for _ in "dark", "light":
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            page.get_by_role("button", name="Light or dark").click()
        page.locator(".jp-InputArea-editor").hover()
        page.get_by_role("button", name="Copy").click()
        assert page.evaluate("window.written") == "print(1)\nprint(2)\n"
        assert page.locator("nav.contents").bounding_box()["x"] == 0  # at the side
    finally:
        context.close()
    assert colours == ["rgb(17, 17, 17)", "rgb(255, 255, 255)"]
