"""Lessons that are only looked at."""

import shutil

import pytest

from helpers import ROOT

pytestmark = pytest.mark.slow
LESSONS = ["Start_Here.ipynb", *sorted(f"notebooks/{path.name}" for path in (ROOT / "notebooks").glob("*.ipynb"))]


def test_a_lesson_that_is_opened_and_saved_is_as_it_was(lab, open_notebook):
    shutil.copytree(ROOT / "images", lab.root / "images", dirs_exist_ok=True)
    changed = {}
    for name in LESSONS:
        path = lab.root / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, path)
        tab = open_notebook(path)
        # JupyterLab notes which Python runs when it shows that the kernel is there.
        tab.page.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for(timeout=60_000)
        marks = tab.page.locator(".lm-TabBar-tab.jp-mod-dirty").count()
        tab.saved()
        changed[name] = (marks, path.read_bytes() != (ROOT / name).read_bytes())
        lab.stop_kernels()
    assert set(changed.values()) == {(0, False)}, changed
