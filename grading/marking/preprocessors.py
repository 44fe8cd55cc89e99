"""The two of nbgrader's steps that are this course's own.

`Examine` stands where nbgrader would execute a hand-in, `Withhold` where it would show hidden tests to those whose work
it returns.
"""

import re

from nbformat import v4
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from ddl.grader import CellError, Limits, examine
from marking import sandbox

__all__ = ["LIMITS", "Examine", "Withhold"]

LIMITS = Limits(cell_s=20, call_s=10, test_s=30, total_s=120)
# Of a region that only the instructor sees, in a test cell or in a question.
REGION = re.compile(
    r"^[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME)[^\n]*$.*?^[^\n]*END \1[^\n]*$\n?", re.MULTILINE | re.DOTALL
)


class Examine(NbGraderPreprocessor):
    """Examine a hand-in in the sandbox; write the verdicts as the test cells' outputs.

    nbgrader gives a test cell without outputs its points, and none to one with an error.
    """

    def preprocess(self, notebook, resources):
        found = examine(notebook, hidden=True, start_worker=sandbox.start_worker, limits=LIMITS)
        verdicts = {verdict.grade_id: verdict for verdict in found.verdicts}
        results = {result.index: result for result in found.cells}
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            cell.outputs = []
            if utils.is_grade(cell) and not utils.is_solution(cell):
                verdict = verdicts[cell.metadata.nbgrader["grade_id"]]
                cell.outputs = list(
                    _outputs(verdict.printed, None if verdict.passed else CellError("NotPassed", verdict.message))
                )
            elif index in results:
                cell.outputs = list(_outputs(results[index].printed, results[index].error))
        notebook.metadata["examination"] = {"notes": list(found.notes)}
        return notebook, resources


class Withhold(NbGraderPreprocessor):
    """Take hidden tests and mark schemes out of what is returned."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell.source = REGION.sub("", cell.source)
        return cell, resources


def _outputs(printed, error):
    """What a cell shows; on standard error it would cost a test cell its points."""
    if printed:
        yield v4.new_output("stream", name="stdout", text=printed)
    if error:
        lines = (error.traceback or f"{error.type}: {error.message}").splitlines()
        yield v4.new_output("error", ename=error.type, evalue=error.message, traceback=lines)
