"""Check your own answers: which questions of a lesson pass their visible tests, and why not.

`ddl check` runs the saved notebook in a new process; `check()` in a notebook tests the names as they are at that
moment. Both grade as marking does, without its hidden tests.
"""

import ast
import contextlib
import os
import re
import textwrap
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ddl.display.html import Markup, html_table, prose
from ddl.errors import CourseError, InputError
from ddl.grader import journal
from ddl.grader.cells import as_answered, source_of, test_cells, unmarked_names
from ddl.grader.channel import start_worker
from ddl.grader.grade import Judge, Verdict, grade_notebook, visible_part
from ddl.grader.handin import EXCHANGE, hand_in
from ddl.grader.launches import launch
from ddl.grader.limits import Limits
from ddl.grader.notebooks import find_notebook, lessons, notebook_of_kernel
from ddl.grader.share import renew
from ddl.grader.stopping import TimeUp, at_most, in_main_thread, interruptible
from ddl.grader.worker import Kept, respond

__all__ = ["Answers", "check", "check_file", "find_notebook", "keep_file"]

UNDEFINED = re.compile(r"[`'](\w+)[`'] is not defined")


@dataclass(frozen=True)
class Answers:
    """The verdicts on a notebook's questions: lines in a terminal, a table in a notebook."""

    name: str  # the notebook's
    verdicts: tuple[Verdict, ...]
    troubles: tuple[str, ...] = ()  # cells that ended with an error, and what marking does differently

    @property
    def passed(self):
        """Whether all questions that have tests pass."""
        return all(verdict.passed for verdict in self.verdicts)

    def __str__(self):
        width = max(len(question) for question, _, _ in self._rows())
        rows = [f"{question:{width}}  {verdict}" for question, _, verdict in self._rows()]
        return "\n".join([*rows, *self.troubles, self._total()])

    def _repr_html_(self):
        rows = []
        for question, passed, outcome in self._rows():
            chip = f'<span class="ddl-chip ddl-{"done" if passed else "failed"}">{prose(outcome)}</span>'
            rows.append((question, Markup(chip)))
        under = "".join(f"<p>{prose(trouble)}</p>" for trouble in self.troubles)
        under += f"<p><b>{prose(self._total())}</b></p>"
        return f'<div role="status">{html_table(("question", "visible tests"), rows, under)}</div>'

    def _rows(self):
        for verdict in self.verdicts:
            text = "passed" if verdict.passed else f"not yet: {' '.join(verdict.message.split())}"
            yield verdict.grade_id.removesuffix("_test"), verdict.passed, text

    def _total(self):
        count = sum(verdict.passed for verdict in self.verdicts)
        points = sum(verdict.points for verdict in self.verdicts if verdict.passed)
        most = sum(verdict.points for verdict in self.verdicts)
        return (
            f"{self.name}: {count} of {len(self.verdicts)} questions pass, "
            f"{points:g} of {most:g} points; marking has more tests, and people read the rest"
        )


def check_file(path, limits=Limits()):
    """Grade a saved notebook in a new process.

    Raises
    ------
    ValueError
        If it cannot be read, or has no tests.
    """
    notebook, notes = _read(path)
    found = grade_notebook(
        notebook, hidden=False, limits=limits, start_worker=partial(start_worker, folder=Path(path).resolve().parent)
    )
    # The stub of an unanswered question says no more than its verdict.
    troubles = [
        f"cell {cell.index + 1} ended with {cell.error.type}: {cell.error.message}"
        for cell in found.cells
        if cell.error and cell.error.type != "NotImplementedError"
    ]
    troubles = [textwrap.shorten(trouble, 200) for trouble in troubles]
    return Answers(Path(path).stem, found.verdicts, (*troubles, *notes))


def check(notebook: str | Path | None = None):
    """Say which questions of a notebook pass so far; in JupyterLab, show a button that does.

    The tests run on what your cells have defined when you press the button, saved or not. `notebook` is a lesson's
    name, its beginning, or a path; by default the notebook that calls this.
    """
    from IPython import get_ipython

    from ddl.display import style

    shell = get_ipython()
    if shell is None:
        raise InputError("check() works in a notebook; in a terminal: `ddl check LESSON`")
    path = find_notebook(notebook) if notebook else _this_notebook(shell.user_ns)
    if not style.is_live():
        print(_check_kernel(path, shell.user_ns))
        return
    _show_button(path, shell.user_ns)


def keep_file(path, answers):
    """Keep the verdicts on a saved notebook, for `ddl.progress`."""
    _keep(path, answers, [source_of(cell) for cell in _read(path)[0]["cells"] if cell["cell_type"] == "code"])


def _keep(path, answers, sources):
    passed = {verdict.grade_id: verdict.passed for verdict in answers.verdicts}
    with contextlib.suppress(OSError):  # the disk is full: what was found is shown all the same
        journal.keep_check(Path(path).stem, passed, sources)
        renew(Path(path).stem)


def _this_notebook(names):
    session = notebook_of_kernel()
    if session and session.is_file():
        return session
    run = {source.strip() for source in names.get("In", ())} - {""}
    counts = {}
    for path in lessons().values():
        with contextlib.suppress(InputError):
            counts[path] = sum("".join(cell["source"]).strip() in run for cell in _read(path)[0]["cells"])
    best = max(counts, key=counts.get, default=None)
    if best is None or not counts[best]:
        raise InputError("say which lesson this is, for example: check('1.Gradient-Basics')")
    return best


def _read(path):
    """Return a saved notebook as marking takes it, and notes on that."""
    import nbformat

    try:
        notebook, notes = as_answered(nbformat.read(path, as_version=4))
        tests = test_cells(notebook)
    except Exception as error:  # nbformat has no common type for what it does not understand
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} cannot be read as a notebook ({textwrap.shorten(reason, 100)}): "
            "open it in JupyterLab and save it, or get a fresh copy"
        ) from None
    if not tests:
        raise InputError(f"{path} has no questions with tests")
    return notebook, notes


def _check_kernel(path, names):
    """Judge the names of the kernel, and keep what was found of which cells."""
    from IPython import get_ipython

    answers = _check_names(path, names)
    _keep(path, answers, get_ipython().history_manager.input_hist_raw)
    return answers


def _check_names(path, names, limits=Limits()):
    """Judge the names of this process, without those that are not defined when the notebook is marked."""
    (notebook, notes), verdicts = _read(path), []
    missing, below = unmarked_names(notebook), {}
    if kernels := sorted(missing[None] & names.keys()):
        notes += (
            f"no cell that is run when marking defines {', '.join(kernels)}: save "
            "the notebook, and define them in a cell of your own",
        )
    judge = Judge(limits)

    def answer(request):
        if request["do"] == "launch":
            return launch(request)
        try:
            with contextlib.redirect_stdout(Kept()), contextlib.redirect_stderr(Kept()), at_most(limits.call_s):
                return _explained(respond(names, request), names.get("In", ()))
        except TimeUp:
            return {"late": limits.call_s}

    try:
        for index, (name, points) in test_cells(notebook).items():
            source = visible_part(source_of(notebook["cells"][index]))
            with _without(names, missing[index]) as taken:
                outcome = judge.judge(source, answer, limits.total_s)
            verdicts.append(Verdict(name, points, **outcome))
            undefined = set(UNDEFINED.findall(outcome["message"])) & taken - missing[None]
            below |= dict.fromkeys(undefined, name)
    finally:
        judge.close()
    notes += tuple(
        f"{name} is defined below {test}, and marking goes from top to bottom: move it up"
        for name, test in below.items()
    )
    return Answers(Path(path).stem, tuple(verdicts), notes)


def _explained(answer, inputs):
    """Say why names are missing: their cell was not run yet, or is no Python, whatever an older one has defined."""
    for name, what in answer.get("names", {}).items():
        defines = re.compile(rf"^\s*(?:async\s+def|def|class)\s+{name}\b|^{name}\s*(?::.*)?=", re.MULTILINE)
        last = next((text for text in reversed(inputs) if defines.search(text)), "")
        if wrong := _syntax_error(last):
            answer["names"][name] = {"missing": True, "why": f"its cell has {wrong}"}
        elif what.get("missing"):
            what["why"] = "its cell was not run yet, or ended with an error"
    return answer


def _syntax_error(cell):
    """Return what is no Python in an executed cell, with its line; "" where all of it is."""
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        ast.parse(TransformerManager().transform_cell(cell))
    except SyntaxError as error:
        return f"a syntax error in line {error.lineno}: {error.msg}"
    return ""


@contextlib.contextmanager
def _without(names, some):
    """Take some names out of a kernel's for a while; yield those that were defined."""
    taken = {name: names.pop(name) for name in some if name in names}
    try:
        yield taken.keys()
    finally:
        for name, value in taken.items():
            names.setdefault(name, value)


def _show_button(path, names):
    import ipywidgets
    from IPython.display import display

    button = ipywidgets.Button(
        description="Check my answers",
        icon="check",
        tooltip="Run the visible tests on what your cells have defined",
        layout={"width": "max-content"},
    )
    table = ipywidgets.HTML()

    def clicked(_):
        button.disabled, button.description, table.value = True, "Checking…", ""
        in_main_thread(checked)  # where interrupts arrive

    def checked():
        try:
            with interruptible():
                table.value = _check_kernel(path, names)._repr_html_()
        except KeyboardInterrupt:
            table.value = "<p>Interrupted before all tests had run.</p>"
        except (CourseError, OSError) as error:
            table.value = f"<p>{prose(error)}</p>"
        finally:
            button.disabled, button.description = False, "Check my answers"

    button.on_click(clicked)
    buttons = [button, *([_hand_in_button(path, table)] if os.environ.get(EXCHANGE) else [])]
    display(ipywidgets.VBox([ipywidgets.HBox(buttons), table]))


def _hand_in_button(path, line):
    """A button that hands in the notebook where the class has an exchange; `line` says what became of it."""
    import ipywidgets

    button = ipywidgets.Button(
        description="Hand in",
        icon="paper-plane",
        tooltip="Hand in this notebook as it is saved: save it first (Ctrl-S)",
        layout={"width": "max-content"},
    )

    def clicked(_):
        button.disabled, line.value = True, ""
        try:
            said = f"{hand_in(path)}. If you have changed anything since, save it and hand in again."
        except (CourseError, OSError) as error:
            said = str(error)
        line.value, button.disabled = f'<p role="status">{prose(said)}</p>', False

    button.on_click(clicked)
    return button
