"""Lessons that are looked at, and where one stands in them."""

import re
import shutil

import pytest

import lessons
from helpers import IN_THE_LAB, ROOT

pytestmark = pytest.mark.nightly(*IN_THE_LAB)


def test_one_walks_through_all_lessons_and_changes_none(lab, open_notebook):
    shutil.copytree(ROOT / "images", lab.root / "images", dirs_exist_ok=True)
    paths = [path.relative_to(ROOT) for path in lessons.notebooks(ROOT) if not re.match(r"\d[a-z]", path.name)]
    for path in paths:
        (lab.root / path).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / path, lab.root / path)
    tab = open_notebook(lab.root / paths[0])
    panel = tab.page.locator(".jp-NotebookPanel:visible")
    changed = {}
    for path in paths:
        tab.path = lab.root / path
        tab.page.locator(".lm-TabBar-tab.lm-mod-current", has_text=path.name).first.wait_for(timeout=60_000)
        # JupyterLab notes which Python runs when it shows that the kernel is there.
        panel.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for(timeout=60_000)
        tab.page.wait_for_timeout(2000)  # a large one has the mark for a moment, until it is loaded
        marks = tab.page.locator(".lm-TabBar-tab.jp-mod-dirty").count()
        tab.saved()
        changed[str(path)] = (marks, tab.path.read_bytes() != (ROOT / path).read_bytes())
        lab.stop_kernels()
        if path == paths[0]:  # it begins with its title, and has a map
            panel.get_by_role("link", name="1. Gradient basics").first.click()
        elif path != paths[-1]:
            panel.locator(".jp-Cell").first.get_by_role("link").last.click()
    tab.screenshot("walked-through")
    assert set(changed.values()) == {(0, False)}, changed


def test_where_one_stands_leads_to_the_lesson_and_a_hint_to_the_next(lab, open_notebook):
    (lab.root / "notebooks").mkdir(exist_ok=True)
    shutil.copy(ROOT / "notebooks/1b.Gradients-in-Depth.ipynb", lab.root / "notebooks")
    cells = ["from ddl import hint, progress", 'hint("q03", "1b")', "progress()"]
    tab = open_notebook(lab.notebook("stand.ipynb", cells))
    tab.run_all()
    link = tab.page.get_by_role("row", name="1b.Gradients-in-Depth").get_by_role(
        "link", name="question 1: to be answered"
    )
    link.wait_for(timeout=60_000)
    assert "q03_table, hint 1 of 3" in tab.page.locator(".jp-OutputArea", has_text="hint 1").first.inner_text()
    tab.screenshot("where-one-stands")
    link.click()
    tab.page.locator(".lm-TabBar-tab.lm-mod-current", has_text="1b.Gradients-in-Depth").first.wait_for(timeout=60_000)
