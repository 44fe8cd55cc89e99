"""Status line and hint button below a question's cells in JupyterLab."""

import contextlib
import itertools
import traceback
from functools import cache
from html import escape
from typing import NamedTuple

from course.grader.cells import STUB, labels, role_of, tested
from course.lab.hints import hint, steps_of
from course.lab.notebooks import FRESH, notebook_of_kernel, read_notebook
from ddl.display import style
from ddl.display.html import prose
from ddl.errors import InputError

_numbers = itertools.count()  # of displays in this kernel
COLORS = {"✓": "#009e73", "○": "#777", "✗": "#d55e00"}


@cache
def follow() -> None:
    """Enable status lines in this kernel, if JupyterLab started it for a notebook."""
    from IPython import get_ipython

    shell, path = get_ipython(), notebook_of_kernel()
    if shell is not None and path is not None:
        with contextlib.suppress(InputError, OSError):  # `check()` reports the notebook's problem
            watch(shell, read_notebook(path))


def watch(shell, notebook) -> None:
    """Enable status lines in an IPython shell for a notebook's cells."""
    marks = _Marks(shell, notebook)
    shell.events.register("pre_run_cell", marks.begin)
    shell.events.register("post_run_cell", marks.end)
    shell.set_custom_exc((Exception,), marks.failed)


class _Place(NamedTuple):
    """The question that a cell belongs to."""

    test: str  # id of the test
    answer_cell: str | None  # id of the answer's cell
    is_test: bool
    question: str | None  # id of the answer


class _Marks:
    def __init__(self, shell, notebook):
        self._shell = shell
        self._answers = {}  # executed answers by cell id
        self._passed = {}  # the displays of tests that have passed, by the id of their answer's cell
        self._cell = None  # the `_Place` of the current cell
        self._cells = {}
        for answer, test in tested(notebook):
            name, answer_id = role_of(test)["grade_id"], answer and answer["id"]
            question = role_of(answer).get("grade_id") if answer else None
            self._cells |= {answer_id: _Place(name, answer_id, False, question)} if answer else {}
            self._cells[test["id"]] = _Place(name, answer_id, True, question)
        self._labels = labels(place.test for place in self._cells.values())

    def begin(self, info):
        self._cell = self._cells.get(info.cell_id)
        if self._cell and not self._cell.is_test:
            before, self._answers[info.cell_id] = self._answers.get(info.cell_id), info.raw_cell
            if before != info.raw_cell:
                for display, test in self._passed.pop(info.cell_id, {}).items():
                    self._say("○", "your answer has changed since this test passed", test=test, replaces=display)

    def end(self, result):
        if result.success and self._cell and self._cell.is_test:
            display = f"passed-{next(_numbers)}"
            self._passed.setdefault(self._cell.answer_cell, {})[display] = self._cell.test
            self._say("✓", "visible tests pass", display=display)

    def failed(self, shell, kind, error, trace, tb_offset=None):
        """Show an exception, in one line if an answer is missing or wrong; offer hints for any of a question's."""
        if self._cell and _is_missing(error, trace):
            answer = self._answers.get(self._cell.answer_cell)
            if answer is None or STUB in answer:
                todo = f"still to be answered, in place of `{STUB}`" if answer else "run the cell of your answer first"
                self._say("○", todo)
                return
        if self._cell and self._cell.is_test and isinstance(error, AssertionError) and str(error):
            self._say("✗", str(error), "".join(traceback.format_exception(kind, error, trace)))
            return
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)
        if self._cell:
            self._say("✗", f"ended with {kind.__name__}, which is shown above")

    def _say(self, sign, text, more="", *, test=None, display=None, replaces=None):
        """Show a line about a test, by default the current cell's, under a display's name or in its place."""
        text = f"{sign} {self._labels[test or self._cell.test]}: {text}"
        css = f"border-left:4px solid {COLORS[sign]};padding-left:7px;font-family:var(--jp-ui-font-family)"
        more = f"<details><summary>traceback</summary><pre>{escape(more)}</pre></details>" if more else ""
        html = f'<div role="status" style="{css}">{prose(text)}{more}</div>'
        named = {"transient": {"display_id": display or replaces}} if display or replaces else {}
        self._shell.display_pub.publish({"text/html": html, "text/plain": text}, update=bool(replaces), **named)
        if sign != "✓" and not replaces and style.is_interactive():
            _offer_hints(self._cell.question)


def _offer_hints(question):
    """Show a button that gives the next hint for a question at each click."""
    path = notebook_of_kernel()
    if path is None or question not in steps_of(path.stem.removesuffix(FRESH)):
        return
    import ipywidgets
    from IPython.display import HTML, display

    button = ipywidgets.Button(description="Hint", icon="lightbulb-o", tooltip="One more hint; it costs no points")
    display(button)
    shown = display(HTML(""), display_id=True)  # of the notebook, so that the hints are saved
    button.on_click(lambda _: shown.update(hint(question)))


def _is_missing(error, trace):
    """Return whether an error comes from a stub, including in a launched script, or from a missing name."""
    while trace.tb_next:
        trace = trace.tb_next
    if isinstance(error, NameError):
        return trace.tb_frame.f_code.co_name == "<module>"
    if isinstance(error, AssertionError):
        return "still to be written" in str(error) or "NotImplementedError" in str(error)
    return not error.args
