"""The two nbgrader preprocessors of this course.

`GradeHandIn` replaces nbgrader's execution of a hand-in; `Withhold` keeps hidden tests out of the feedback.
"""

import re

from nbformat import v4
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor

from ddl.grader import CellError, Limits, grade_notebook
from marking import sandbox

__all__ = ["LIMITS", "GradeHandIn", "Withhold"]

LIMITS = Limits(cell_s=20, call_s=10, test_s=30, launch_s=60, total_s=300)
# What only the instructor sees, in a test cell or a question.
REGION = re.compile(
    r"^[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME)[^\n]*$.*?^[^\n]*END \1[^\n]*$\n?", re.MULTILINE | re.DOTALL
)


class GradeHandIn(NbGraderPreprocessor):
    """Grade a hand-in in the sandbox, and write the verdicts as outputs of its test cells.

    nbgrader gives a test cell its points if it has no outputs, and none if it has an error.
    """

    def preprocess(self, notebook, resources):
        found = grade_notebook(
            notebook, hidden=True, start_worker=sandbox.start_worker, start_ranks=sandbox.start_ranks, limits=LIMITS
        )
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
    """Remove hidden tests and mark schemes from the feedback."""

    def preprocess_cell(self, cell, resources, cell_index):
        cell.source = REGION.sub("", cell.source)
        return cell, resources


def _outputs(printed, error):
    """A cell's outputs; text on standard error would cost a test cell its points."""
    if printed:
        yield v4.new_output("stream", name="stdout", text=printed)
    if error:
        lines = (error.traceback or f"{error.type}: {error.message}").splitlines()
        yield v4.new_output("error", ename=error.type, evalue=error.message, traceback=lines)
