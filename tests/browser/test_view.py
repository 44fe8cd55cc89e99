"""The live view in a real JupyterLab, with real launches of a script that trains in pretence."""

import re
import shutil
from pathlib import Path

import nbformat
import psutil
import pytest

from ddl.follow import processes
from doubling import SOLVED, STUBS, write_lesson, write_released
from helpers import IN_THE_LAB, ROOT, until

QUICK = Path(__file__).with_name("quick_train.py")
PANEL = ".jp-OutputArea"
SCREENSHOTS = ROOT / "build" / "screenshots"


@pytest.fixture
def course(lab):
    shutil.copy(QUICK, lab.root)
    return lab


def launching(*options):
    return ["from ddl import launch", *(f"launch('quick_train.py', {text})" for text in options)]


def live_panel(tab):
    """Wait for a run that trains, and return its output area."""
    panel = tab.page.locator(PANEL, has=tab.page.locator(".ddl-training")).last
    panel.wait_for(timeout=60_000)
    return panel


def folders(lab):
    return {path.name for path in lab.runs.iterdir()} if lab.runs.exists() else set()


def test_live_view_shows_a_run_and_stops_the_next_one(course, open_notebook):
    # The handler of the Stop button must also serve the second run.
    cells = [*launching("name='watched', epochs=12", "name='endless', epochs=5000, max_restarts=1"), "print('after')"]
    tab = open_notebook(course.notebook("live.ipynb", cells))
    before = folders(course)
    tab.run_all()
    panel = live_panel(tab)
    panel.locator(".ddl-copy").wait_for()
    curve = panel.locator("polyline.ddl-loss")
    curve.wait_for(state="attached", timeout=20_000)
    points = len(curve.get_attribute("points"))
    tab.wait_for_progress(panel)
    until(lambda: len(curve.get_attribute("points")) > points, 20, "the chart does not move", tab.page.wait_for_timeout)
    assert not tab.widens_the_page()
    tab.screenshot("live")
    tab.page.locator(".jp-Cell").nth(1).locator(".ddl-done").first.wait_for(timeout=60_000)
    tab.screenshot("done")
    live_panel(tab).get_by_role("button", name="Kill rank 1").click()
    note = live_panel(tab).get_by_text("restart 1: rank 1 of 2")
    note.wait_for(timeout=30_000)
    tab.screenshot("killed")
    live_panel(tab).get_by_role("button", name="Stop").first.click()
    saved = tab.wait_until_idle(30)
    assert [error.split(":")[0] for error in saved.errors] == ["RunInterrupted"] and not saved.printed
    final = saved.html[0]
    assert "watched done in" in final and "<svg" in final and "synthetic (generated)" in final
    assert any("endless stopped" in text for text in saved.html)
    for run in folders(course) - before:
        assert processes.of_run(run) == []


def test_live_view_returns_after_a_reload(course, open_notebook):
    """The notebook was never saved; the run goes on, and Stop ends it."""
    path = course.notebook("reload.ipynb", [*launching("name='goes on', epochs=5000"), "print('after')"])
    tab = open_notebook(path)
    before = folders(course)
    tab.run_all()
    live_panel(tab)
    tab.page.reload()
    tab.page.locator(".jp-NotebookPanel:visible .jp-Cell").first.wait_for(timeout=60_000)
    panel = live_panel(tab)
    tab.wait_for_progress(panel)
    tab.screenshot("reloaded")
    panel.get_by_role("button", name="Stop").click()
    tab.page.locator(f"{PANEL} .ddl-stopped").wait_for(timeout=30_000)
    saved = tab.wait_until_idle(30)
    assert len(folders(course) - before) == 1
    assert "goes on stopped" in saved.html[0] and "attach(" in saved.html[0]
    for run in folders(course) - before:
        assert processes.of_run(run) == []


SHORT_THEN_LONG = """
import os
from ddl import launch
epochs = 5000 if os.path.exists("ran") else 1
open("ran", "w").close()
run = launch("quick_train.py", name="again", epochs=epochs)
"""


@pytest.mark.slow
def test_second_tab_shows_the_run_of_the_first(course, open_notebook):
    path = course.notebook("two-tabs.ipynb", [SHORT_THEN_LONG])
    first = open_notebook(path)
    first.run_all()
    assert first.wait_until_idle(60).errors == []
    second = open_notebook(path)
    second.page.locator(".ddl-done").wait_for(timeout=60_000)
    first.run_all()
    live_panel(first)
    panel = live_panel(second)
    second.wait_for_progress(panel)
    second.screenshot("second-tab")
    assert first.page.locator(".ddl-training").count() == 1  # not twice
    panel.get_by_role("button", name="Stop").click()
    second.page.locator(f"{PANEL} .ddl-stopped").wait_for(timeout=30_000)


@pytest.mark.nightly(*IN_THE_LAB)
def test_no_run_is_active_after_its_kernel_is_killed(course, open_notebook):
    """As by a machine that runs out of memory; that a kernel's end stops its run is tested in tests/launch."""
    tab = open_notebook(course.notebook("killed.ipynb", launching("name='killed', epochs=5000")))
    before = folders(course)
    tab.run_all()
    live_panel(tab)
    children = psutil.Process(course.process.pid).children()
    (kernel,) = [each for each in children if "ipykernel_launcher" in " ".join(each.cmdline())]
    kernel.kill()
    tab.page.add_locator_handler(died := tab.page.get_by_role("dialog"), lambda: died.get_by_text("Ok").click())
    tab.page.locator(f"{PANEL} .ddl-stopped").wait_for(timeout=60_000)
    tab.screenshot("kernel-killed")
    assert tab.page.locator(f"{PANEL} .ddl-training").count() == 0
    (run,) = folders(course) - before
    assert f'attach("{run}")' in tab.page.locator(f"{PANEL}:visible").inner_text()
    saved = tab.saved()
    assert "killed stopped" in saved.html[0] and "ddl-chip ddl-training" not in saved.html[0]
    assert processes.of_run(run) == []


@pytest.mark.nightly(*IN_THE_LAB)
def test_run_list_links_to_views(course, open_notebook):
    cells = [*launching("name='linked', epochs=1"), "from ddl import runs\nruns()"]
    tab = open_notebook(course.notebook("links.ipynb", cells))
    tab.run_all()
    link = tab.page.get_by_role("link", name="linked").first
    link.wait_for(timeout=60_000)
    tab.screenshot("runs")
    with tab.page.context.expect_page() as opened:
        link.click()
    view = opened.value
    view.locator(".ddl-done").first.wait_for()
    assert view.title() == "linked" and view.locator("svg.ddl-chart").count() == 2
    view.screenshot(path=SCREENSHOTS / "run-page.png")
    stranger = tab.page.context.browser.new_context()
    asked = stranger.request.get(view.url)
    assert "/login?" in asked.url and "linked" not in asked.text()
    stranger.close()


@pytest.mark.nightly(*IN_THE_LAB)
def test_tensorboard_opens_through_the_same_server(course, open_notebook):
    tab = open_notebook(course.notebook("extras.ipynb", launching("name='extra', epochs=1, extras=True")))
    tab.run_all()
    assert tab.wait_until_idle(60).errors == []

    def opened(name):
        link = tab.page.get_by_role("link", name=name).first
        link.wait_for(timeout=60_000)
        with tab.page.context.expect_page(timeout=90_000) as page:  # it is there when its server has answered
            link.click()
        return page.value

    board = opened("TensorBoard")
    board.get_by_text("tried loss").first.wait_for(timeout=90_000)
    (run,) = {path.parent.name for path in course.runs.glob("*/tensorboard")}
    assert board.get_by_role("textbox", name="Filter runs (regex)").input_value() == run
    board.screenshot(path=SCREENSHOTS / "tensorboard.png")
    server = psutil.Process(course.process.pid)
    (process,) = [each for each in server.children(recursive=True) if "ddl.server.tensorboard" in each.cmdline()]
    assert [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN] == []
    stranger = tab.page.context.browser.new_context()
    assert "/login?" in stranger.request.get(board.url.partition("#")[0]).url
    stranger.close()


LOOPS = """from pathlib import Path
def double(x):
    while Path('endless').exists(): pass
    return 2 * x"""


def test_check_of_an_endless_loop_can_be_interrupted(course, open_notebook):
    path = write_lesson(course.root, SOLVED | {"q01_double": LOOPS}, "from course import check\ncheck('7.Doubling')")
    tab = open_notebook(path)
    tab.run_all()
    tab.wait_until_idle(60)
    button = tab.page.locator("button.jupyter-button", has_text="Check")
    table = tab.page.locator(PANEL, has=button).last
    button.press("Enter")
    table.get_by_text("2 of 2 questions pass").wait_for(timeout=60_000)
    assert button.evaluate("button => button === document.activeElement")
    tab.page.locator(".jp-CodeCell .cm-content", has_text="table = [1, 4, 9]").first.click()
    tab.page.keyboard.press("Control+End")
    tab.page.keyboard.type(" + [16]")
    button.click()  # which saves first
    table.get_by_text("1 of 2 questions pass").wait_for(timeout=60_000)
    assert "[1, 4, 9] + [16]" in path.read_text() and "could not save" not in table.inner_text()
    path.with_name("endless").touch()
    button.click()
    table.get_by_text(re.compile(r"Checking… question 1, \d+ s")).wait_for(timeout=30_000)
    assert "questions pass" not in table.inner_text() and "Saving" not in table.inner_text()
    tab.screenshot("checking")
    tab.interrupt()
    table.get_by_text("Interrupted before all tests had run").wait_for(timeout=8_000)
    button.click()
    table.get_by_text("was stopped after 10 s").wait_for(timeout=60_000)
    assert "0 of 2 questions pass" in table.inner_text()
    tab.screenshot("endless")


def test_question_status_line_and_link_from_check(course, open_notebook):
    checks = "from course import check\ncheck()"
    path = write_released(course.root, SOLVED | {"q02_table": STUBS["q02_table"]}, checks, text="Because.")
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("from course import hint"))
    notebook.cells.insert(3, nbformat.v4.new_code_cell(checks))  # the first sitting has one question
    nbformat.write(notebook, path)
    tab = open_notebook(path, height=500)
    tab.run_all()
    saved = tab.wait_until_idle(60)
    tab.screenshot("questions")
    assert saved.errors == []
    lines = [output["data"]["text/plain"] for cell in saved.code for output in cell.outputs if "data" in output]
    todo = "○ question 2: still to be answered, in place of `raise NotImplementedError()`"
    assert [line for line in lines if "question" in line] == ["✓ question 1: visible tests pass", todo, todo]
    for number, said in enumerate(("to here: 1 of 1 questions pass", "7.Doubling: 1 of 2 questions pass")):
        tab.page.get_by_role("button", name="Check my answers").nth(number).click()
        tab.page.get_by_text(said).wait_for(timeout=60_000)
    tab.screenshot("checked")
    answer = tab.page.locator(".jp-CodeCell", has_text="return 2 * x").first
    in_view = "cell => { const at = cell.getBoundingClientRect(); return 50 < at.top && at.bottom < innerHeight }"
    assert not answer.evaluate(in_view)
    tab.page.get_by_role("link", name="question 1").last.click()
    until(lambda: answer.evaluate(in_view), 10, "the link does not lead to the answer", tab.page.wait_for_timeout)
    tab.screenshot("linked")
    assert "question 2" in "".join(tab.saved().html)  # what was found is kept
