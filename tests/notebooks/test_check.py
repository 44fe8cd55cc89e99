"""The attendees' own check in a real kernel."""

import os

import nbformat
import pytest

from ddl.grader import journal
from doubling import SOLVED, STUBS, write_lesson

pytestmark = pytest.mark.slow


@pytest.fixture
def ran():
    """Return a function that runs a notebook in a real kernel; gives all that it printed."""

    def run(path, **environment):
        from jupyter_client.manager import KernelManager
        from nbclient import NotebookClient

        notebook = nbformat.read(path, as_version=4)
        manager = KernelManager(kernel_name="python3")
        client = NotebookClient(
            notebook, km=manager, timeout=120, allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
        )
        client.execute(env=os.environ | environment)
        return "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))

    return run


@pytest.mark.parametrize("call", ["check()", "check('7')"])
def test_in_a_kernel_it_prints(tmp_path, ran, call, monkeypatch):
    monkeypatch.setenv("DDL_RUNS_DIR", str(tmp_path / "runs"))
    # What counts is what has been run in this kernel, not what is saved.
    path = write_lesson(
        tmp_path, STUBS, "def double(x):\n    print('loud')\n    return 2 * x", f"from ddl import check\n{call}"
    )
    printed = ran(path)
    assert "q01_double  passed\nq02_table   not yet: `table` is not defined" in printed
    assert "loud" not in printed
    passed, ran_cells = journal.checked("7.Doubling")
    assert passed == {"q01_double_test": True, "q02_table_test": False}
    assert journal.digest("def double(x):\n    print('loud')\n    return 2 * x") in ran_cells


def test_in_jupyterlab_it_shows_a_button(tmp_path, ran):
    press = """
from ipywidgets import HTML, Button
from ipywidgets.widgets.widget import _instances
button, = (widget for widget in _instances.values() if isinstance(widget, Button))
shown, = (widget for widget in _instances.values() if isinstance(widget, HTML))
print([button.description, shown.value])
button.click()
print([button.description, button.disabled], shown.value)
"""
    path = write_lesson(
        tmp_path, SOLVED | {"q02_table": "table = [1, 4, '<b>']"}, "from ddl import check\ncheck()", press
    )
    printed = ran(path, DDL_VIEW="live", JPY_SESSION_NAME=str(path))
    assert "['Check my answers', '']" in printed
    assert "['Check my answers', False]" in printed
    assert "passed" in printed and "1 of 2 questions pass" in printed
    assert "&#x27;&lt;b&gt;&#x27;" in printed and "'<b>'" not in printed
