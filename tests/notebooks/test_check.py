"""The attendees' own check in a real kernel."""

import os

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

from course.lab import attendee
from doubling import SOLVED, write_lesson

pytestmark = pytest.mark.slow


def ran(path, **environment):
    """Run a notebook in a real kernel; return all that it printed."""
    notebook, place = nbformat.read(path, as_version=4), {"metadata": {"path": str(path.parent)}}
    manager = KernelManager(kernel_name="python3")
    client = NotebookClient(notebook, km=manager, timeout=120, allow_errors=True, resources=place)
    client.execute(env=os.environ | environment)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.get("text") or output.get("data", {}).get("text/html", "") for output in outputs)


def test_check_prints_in_a_kernel(tmp_path):
    # The kernel has the right table when it checks; the saved notebook, from top to bottom, has it too late.
    calls = "from course import check\ncheck()\ncheck('7')"
    path = write_lesson(tmp_path, SOLVED | {"q02_table": "table = 0"}, "table = [1, 4, 9]", calls)
    assert ran(path).count("question 1  passed\nquestion 2  not yet: ") == 2
    found = {test: passed for test, (passed, _) in attendee.checked("7.Doubling").items()}
    assert found == {"q01_double_test": True, "q02_table_test": False}
