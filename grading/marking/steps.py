"""The two of nbgrader's steps that are this course's own.

`Examine` stands where nbgrader would execute a hand-in, `Withhold` where it would show hidden
tests to those whose work it returns.
"""

import re

from nbformat import v4
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from ddl.exam import Limits, examine

from marking import sandbox

__all__ = ["HIDDEN", "Examine", "Withhold"]

HIDDEN = "The visible tests pass. A hidden test does not."
LIMITS = Limits(cell_s=15, call_s=5, test_s=20, total_s=120)
# Of a region that only the instructor sees, in a test cell or in a question.
REGION = re.compile(
    r"^[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME)[^\n]*$.*?^[^\n]*END \1[^\n]*$\n?",
    re.MULTILINE | re.DOTALL,
)


class Examine(NbGraderPreprocessor):
    """Examine a hand-in in the sandbox; write the verdicts as the test cells' outputs.

    nbgrader gives a test cell without outputs its points, and none to one with an error. The cells
    are run twice. What is shown comes from a run in which nothing of the hidden tests went in: a
    submission's function could print, return or raise what it was called with. Of the second
    run it counts only which tests pass.
    """

    def preprocess(self, notebook, resources):
        shown = examine(notebook, hidden=False, start_worker=sandbox.start_worker, limits=LIMITS)
        verdicts = {verdict.grade_id: verdict for verdict in shown.verdicts}
        passed = {name for name, verdict in verdicts.items() if verdict.passed}
        notes = list(shown.notes)
        if passed & _hiding(notebook):
            judged = examine(
                notebook, hidden=True, start_worker=sandbox.start_worker, limits=LIMITS
            )
            passed &= {verdict.grade_id for verdict in judged.verdicts if verdict.passed}
            notes += judged.notes
        results = {result.index: result for result in shown.cells}
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            cell.outputs = []
            if _is_test(cell):
                verdict = verdicts[cell.metadata.nbgrader["grade_id"]]
                if verdict.grade_id not in passed:
                    cell.outputs = [_error("NotPassed", verdict.message or HIDDEN)]
            elif index in results:
                cell.outputs = list(_outputs(results[index]))
        notebook.metadata["examination"] = {"notes": list(dict.fromkeys(notes))}
        return notebook, resources


class Withhold(NbGraderPreprocessor):
    """Take hidden tests and mark schemes out of what is returned."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell.source = REGION.sub("", cell.source)
        return cell, resources


def _is_test(cell):
    return utils.is_grade(cell) and not utils.is_solution(cell)


def _hiding(notebook):
    """The test cells that have a hidden part."""
    return {
        cell.metadata.nbgrader["grade_id"]
        for cell in notebook.cells
        if cell.cell_type == "code" and _is_test(cell) and REGION.search(cell.source)
    }


def _outputs(result):
    if result.printed:
        yield v4.new_output("stream", name="stdout", text=result.printed)
    if result.error:
        yield _error(result.error.type, result.error.message, result.error.traceback)


def _error(name, message, traceback=""):
    text = traceback or f"{name}: {message}"
    return v4.new_output("error", ename=name, evalue=message, traceback=text.splitlines())
