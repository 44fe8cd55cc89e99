"""Checks of one's own answers against a lesson's visible tests.

`ddl check` and the button of `check()`, which saves first, grade the saved notebook like marking, without hidden tests.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from pathlib import Path
from urllib.parse import quote

from course.grader.cells import answers_of, as_answered, labels, role_of, source_of, test_cells, tested
from course.grader.grade import Verdict, grade_notebook
from course.grader.limits import Limits
from course.grader.worker import GRADING
from course.grader.worker_process import start_worker
from course.lab import attendee
from course.lab.classroom import renew
from course.lab.handin import EXCHANGE, hand_in
from course.lab.notebooks import executed, find_notebook, read_notebook, this_notebook
from ddl.display.html import Markup, html_table, prose
from ddl.errors import CourseError, InputError

LARGE_BYTES = 10 * 2**20
CHECK, CHECKING = "Check my answers", "Checking…"
SAVED_WITHIN_S = 5.0
SETTLES_S = 0.2  # name of a temporary file
# Presses JupyterLab's save button in this notebook's toolbar, and restores the focus.
SAVE = """<p role="status">Saving…</p><script>(() => {
  const panel = document.currentScript.closest(".jp-NotebookPanel") || document;
  const focused = document.activeElement;
  panel.querySelector('[data-jp-item-name="save"] jp-button, [data-jp-item-name="save"] button')?.click();
  focused?.focus();
})();</script>"""


@dataclass(frozen=True)
class Answers:
    """The verdicts on a notebook's questions: lines in a terminal, a table in a notebook."""

    name: str  # the notebook's
    verdicts: tuple[Verdict, ...]
    troubles: tuple[str, ...] = ()  # cells that raised an error, and differences from marking
    links: Mapping[str, str] = field(default_factory=dict)  # to the answers of questions, by their tests' ids

    @property
    def passed(self):
        """Whether all questions that have tests pass."""
        return all(verdict.passed for verdict in self.verdicts)

    def __str__(self):
        rows = [(label, outcome) for _, label, outcome in self._rows()]
        width = max((len(label) for label, _ in rows), default=0)
        return "\n".join([*(f"{label:{width}}  {outcome}" for label, outcome in rows), *self.troubles, self._total()])

    def _repr_html_(self):
        rows = []
        for verdict, label, outcome in self._rows():
            chip = f'<span class="ddl-chip ddl-{"done" if verdict.passed else "failed"}">{prose(outcome)}</span>'
            link = self.links.get(verdict.grade_id)
            rows.append((Markup(f'<a href="{escape(link)}">{escape(label)}</a>') if link else label, Markup(chip)))
        under = "".join(f"<p>{prose(trouble)}</p>" for trouble in self.troubles)
        under += f"<p><b>{prose(self._total())}</b></p>"
        return f'<div role="status">{html_table(("question", "visible tests"), rows, under)}</div>'

    def _rows(self):
        names = labels(verdict.grade_id for verdict in self.verdicts)
        for verdict in self.verdicts:
            text = "passed" if verdict.passed else f"not yet: {' '.join(verdict.message.split())}"
            yield verdict, names[verdict.grade_id], text

    def _total(self):
        questions = {}  # by number: a question may have several tests
        for verdict in self.verdicts:
            number = verdict.grade_id.partition("_")[0]
            questions[number] = questions.get(number, True) and verdict.passed
        points = sum(verdict.points for verdict in self.verdicts if verdict.passed)
        most = sum(verdict.points for verdict in self.verdicts)
        return (
            f"{self.name}: {sum(questions.values())} of {len(questions)} questions pass, "
            f"{points:g} of {most:g} points; these are the visible tests, marking runs more"
        )


def check_file(path, limits=Limits(), *, above=None, begin=lambda question: None):
    """Grade a saved notebook in new processes, and store the verdicts for `ddl.progress`.

    `above` is the id of a cell with questions above and below it: only those above are checked. `begin` is called with
    the name of each question before its test runs.

    Raises
    ------
    InputError
        If it cannot be read, or has no tests.
    """
    path = Path(path)
    notebook, notes = _read(path)
    tests = test_cells(notebook)
    questions = labels(name for name, _ in tests.values())
    end = next((index for index, cell in enumerate(notebook["cells"]) if above and cell.get("id") == above), None)
    judged = [index for index in tests if end is None or index < end]
    whole = len(judged) in (0, len(tests))
    if not whole:
        notebook["cells"] = notebook["cells"][: judged[-1] + 1]
    with _copy_of(path.resolve().parent) as folder:
        found = grade_notebook(
            notebook,
            hidden=False,
            limits=limits,
            start_worker=partial(start_worker, folder=folder),
            begin=lambda name: begin(questions[name]),
        )
    # An unanswered question's stub adds nothing to its verdict.
    troubles = [
        textwrap.shorten(f"cell {cell.index + 1} ended with {cell.error.type}: {cell.error.message}", 200)
        for cell in found.cells
        if cell.error and cell.error.type != "NotImplementedError"
    ]
    _keep(path.stem, notebook, found.verdicts, whole)
    name = path.stem if whole else f"{path.stem} to here"
    return Answers(name, found.verdicts, (*troubles, *notes), _links(path, notebook))


def _keep(lesson, notebook, verdicts, whole):
    texts, passed = answers_of(notebook), {verdict.grade_id: verdict.passed for verdict in verdicts}
    kept = {}
    for answer, test in tested(notebook):
        name, text = role_of(test)["grade_id"], texts[role_of(answer).get("grade_id")] if answer else ""
        kept.setdefault(name, (passed.get(name, False), attendee.digest(text)))
    with contextlib.suppress(OSError):  # the disk is full, but the results can be shown
        attendee.keep_check(lesson, kept, whole)
        renew(lesson)


@contextlib.contextmanager
def _copy_of(folder):
    """Make a temporary copy of a folder next to it, so that a notebook can't replace its files; link large ones."""
    beside = folder.parent if os.access(folder.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".check-", dir=beside) as copy:
        for each in folder.iterdir():
            if each.is_file() and os.access(each, os.R_OK) and each.stat().st_size < LARGE_BYTES:
                shutil.copy2(each, copy)
            else:
                Path(copy, each.name).symlink_to(each)
        yield copy


def check(notebook: str | Path | None = None):
    """Check a notebook's questions; in JupyterLab, show a button that checks those above its cell.

    The button saves the notebook and runs all its cells from top to bottom in a new process. `notebook` is a lesson's
    name, its first characters, or a path; by default the notebook that calls this.
    """
    from IPython import get_ipython

    from ddl.display import style

    if os.environ.get(GRADING):  # called inside a check
        return
    shell = get_ipython()
    if shell is None:
        raise InputError("check() works in a notebook; in a terminal: `ddl check LESSON`")
    path = find_notebook(notebook) if notebook else this_notebook()
    if style.is_interactive():
        _show_button(path, shell.get_parent().get("metadata", {}).get("cellId"))
        return
    answers = check_file(path)
    print(replace(answers, troubles=(*answers.troubles, *_differing(path, executed()))))


def _differing(path, ran):
    """Return a warning if the kernel has run newer answers than the saved notebook has."""
    names = [
        role_of(test)["grade_id"]
        for answer, test in tested(_read(path)[0])
        if answer and source_of(test).strip() in ran and source_of(answer).strip() not in ran
    ]
    if names:
        answers = ", ".join(labels(names).values())
        yield f"This judges {path} as it is saved; this kernel has run other answers to {answers}."


def _read(path):
    """Return a saved notebook as marking will see it, and notes."""
    notebook, notes = as_answered(read_notebook(path))
    tests = test_cells(notebook)
    if not tests:
        raise InputError(f"{path} has no questions with tests")
    return notebook, notes


def _links(path, notebook):
    """Return the address of the answer before each test, as JupyterLab opens it."""
    address = f"{quote(path.name)}#cell-id="
    return {role_of(test)["grade_id"]: f"{address}{(answer or test).get('id')}" for answer, test in tested(notebook)}


def _save(path, shown):
    """Have JupyterLab save this notebook; return a message if it failed."""
    from IPython.display import HTML

    before, due = path.stat().st_mtime_ns, time.monotonic() + SAVED_WITHIN_S
    shown.update(HTML(SAVE))
    while path.stat().st_mtime_ns == before:
        if time.monotonic() > due:
            at = time.strftime("%H:%M:%S", time.localtime(before / 1e9))
            return (
                f"This could not save the notebook: it is judged as it was saved at {at}. Save it, and check again.",
            )
        time.sleep(0.05)
    time.sleep(SETTLES_S)
    return ()


def _show_button(path, cell):
    import ipywidgets
    from IPython.display import HTML, display

    # A disabled button loses keyboard focus, so this one ignores clicks while it works.
    button = ipywidgets.Button(
        description=CHECK,
        icon="check",
        tooltip="Save the notebook, and run the visible tests on it",
        layout={"width": "max-content"},
    )
    buttons = ipywidgets.HBox([button])
    display(buttons)
    table = display(HTML(""), display_id=True)  # of the notebook, so that its links work and it is saved
    checking = HTML(f'<p role="status">{CHECKING}</p>')

    def clicked(_):
        if button.description == CHECK:
            button.description = CHECKING
            table.update(checking)
            _in_main_thread(checked)  # the thread that receives interrupts

    def checked():
        try:
            with interruptible(), _counting(button) as begin:
                unsaved = _save(path, table)
                table.update(checking)
                answers = check_file(path, above=cell, begin=begin)
            found = replace(answers, troubles=(*unsaved, *answers.troubles))._repr_html_()
        except KeyboardInterrupt:
            found = "<p>Interrupted before all tests had run.</p>"
        except (CourseError, OSError) as error:
            found = f"<p>{prose(error)}</p>"
        finally:
            button.description = CHECK
        table.update(HTML(found))

    button.on_click(clicked)
    if os.environ.get(EXCHANGE):
        buttons.children += (_hand_in_button(path, table),)


@contextlib.contextmanager
def _counting(button):
    """Show the current question and the elapsed seconds on a button; yield a function that sets the question."""
    now, over = {}, threading.Event()

    def begin(question):
        now.update(question=question, since=time.monotonic())

    def count():
        while not over.wait(1):
            if seconds := int(time.monotonic() - now.get("since", time.monotonic())):
                button.description = f"{CHECKING} {now['question']}, {seconds} s"

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield begin
    finally:
        over.set()
        thread.join()


def _hand_in_button(path, line):
    """Return a hand-in button if the class has an exchange; `line` shows the result."""
    import ipywidgets
    from IPython.display import HTML

    button = ipywidgets.Button(
        description="Hand in",
        icon="paper-plane",
        tooltip="Hand in this notebook as it is saved: save it first (Ctrl-S)",
        layout={"width": "max-content"},
    )

    def clicked(_):
        try:
            outcome = f"{hand_in(path)}. If you have changed anything since, save it and hand in again."
        except (CourseError, OSError) as error:
            outcome = str(error)
        line.update(HTML(f'<p role="status">{prose(outcome)}</p>'))

    button.on_click(clicked)
    return button


# ---------------------------------------------------------------- interrupts (main thread only)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt in the main thread, as in a cell; an idle kernel ignores it."""
    if not _main():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _in_main_thread(act):
    """Call `act` in the kernel's main thread, because widgets' clicks may arrive in another one."""
    from IPython import get_ipython

    if _main():
        act()
    else:
        get_ipython().kernel.io_loop.add_callback(act)  # as soon as it is idle


def _main():
    return threading.current_thread() is threading.main_thread()
