"""Runs in notebooks that are opened and saved, and in the server's answers."""

import asyncio
import os
import subprocess

import nbformat
import pytest

from course.lab.files import CourseFiles, bring_up_to_date
from ddl.display.panel import MARK
from ddl.errors import CourseError
from ddl.follow.processes import of_run
from ddl.records.folder import RunFolder
from ddl.records.jsonfiles import write_json
from ddl.records.paths import runs_dir
from ddl.server.serving import Runs
from helpers import until

NAME = "1.First.ipynb"
IDS = [f"20260101-00000{n}-aaaa" for n in range(4)]


@pytest.fixture
def make():
    """Return a function that makes a run's folder, with a process where it goes on."""
    processes = []

    def make(run_id=IDS[0], cell="a", execution="m1", ended=None, notebook=f"/course/notebooks/{NAME}", name="<b>good"):
        folder = RunFolder(runs_dir() / run_id)
        folder.path.mkdir()
        job = {"id": run_id, "name": name, "created": 100.0, "workers": 1, "ranks": 1, "site": {}}
        write_json(folder.job, job)
        write_json(folder.shown, {"notebook": notebook, "cell": cell, "execution": execution})
        folder.append(folder.launcher, {"event": "launched", "time": 100.0, "pid": 0})
        if ended:
            folder.append(folder.launcher, {"event": "ended", "time": ended, "state": "done"})
        else:
            environment = os.environ | {"DDL_RUN_ID": run_id}
            processes.append(subprocess.Popen(["sleep", "600"], env=environment, start_new_session=True))
            until(lambda: of_run(run_id))  # its environment is there a moment after its start
        return folder

    yield make
    for process in processes:
        process.kill()
        process.wait()


def notebook(**outputs):
    """A notebook with a cell for each id, and what was saved of it."""
    cells = []
    for name, listed in outputs.items():
        cell = nbformat.v4.new_code_cell("launch()", outputs=listed)
        cell.id = name
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells)


def shown(run_id, over=False):
    return nbformat.v4.new_output("display_data", {"text/html": "then"}, metadata={MARK: {"run": run_id, "over": over}})


def outputs(found, cell=0):
    return [(out["metadata"][MARK]["run"], out["metadata"][MARK]["over"]) for out in found.cells[cell].outputs]


def test_active_run_reappears_after_reload(make):
    make(cell="b")
    found = notebook(a=[], b=[])
    bring_up_to_date(found, NAME, saved=50.0)
    assert found.cells[0].outputs == [] and outputs(found, 1) == [(IDS[0], False)]
    html = found.cells[1].outputs[0]["data"]["text/html"]
    assert "ddl/view.js" in html and 'class="ddl-stop"' in html and "&lt;b&gt;good" not in html
    assert found.cells[1].metadata.trusted is True and "trusted" not in found.cells[0].metadata
    nbformat.validate(found)


@pytest.mark.parametrize(
    ("run", "there", "saved", "expected"),
    [
        ({"ended": 200.0}, [], 150.0, [(IDS[0], True)]),
        ({"ended": 200.0}, [], 250.0, []),  # the notebook was saved after its end
        ({}, [shown(IDS[0])], 50.0, [(IDS[0], False)]),  # it is shown already
        ({"notebook": "/course/notebooks/2.Second.ipynb"}, [], 50.0, []),
    ],
)
def test_run_is_restored_once_in_older_notebook(make, run, there, saved, expected):
    make(**run)
    found = notebook(a=there)
    bring_up_to_date(found, NAME, saved)
    assert outputs(found) == expected


def test_finished_run_is_saved_as_finished(make, tmp_path):
    make(ended=200.0)
    files = CourseFiles(root_dir=str(tmp_path))
    asyncio.run(files.save({"type": "notebook", "format": "json", "content": notebook(a=[shown(IDS[0])])}, NAME))
    saved = nbformat.read(tmp_path / NAME, as_version=4)
    assert outputs(saved) == [(IDS[0], True)]
    assert "good done in 1:40" in saved.cells[0].outputs[0]["data"]["text/plain"]
    assert f"attach(&quot;{IDS[0]}&quot;)" in saved.cells[0].outputs[0]["data"]["text/html"].replace('"', "&quot;")


def test_run_page_escapes_its_texts(make):
    make()
    page = Runs("/ddl").page(IDS[0])
    assert "<b>good" not in page and "<title>&lt;b&gt;good</title>" in page and '"/ddl/view.js"' in page
    for ask in (Runs("/ddl").state, Runs("/ddl").stop):
        with pytest.raises(CourseError, match="no run 'nowhere'"):
            ask("nowhere")


def test_tab_with_an_ended_run_is_given_a_later_one_of_the_same_cell(make):
    make(IDS[0], ended=200.0)
    make(IDS[1], execution="m1")  # of the same execution: a loop's next
    assert Runs("/ddl").newer(IDS[0]) == {"found": {}}
    make(IDS[2], cell="b", execution="m2")
    make(IDS[3], execution="m3", name="again")
    ((run_id, html),) = Runs("/ddl").newer(f"{IDS[0]},../job,{IDS[3]}")["found"].items()
    assert run_id == IDS[0] and f'data-run="{IDS[3]}"' in html
