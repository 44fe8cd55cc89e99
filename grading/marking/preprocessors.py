"""The nbgrader preprocessors of this course.

`GradeHandIn` replaces nbgrader's execution of a hand-in; `Grades` and `Withhold` are for the feedback, and keep hidden
tests out of it.
"""

import contextlib
import re
from pathlib import Path

from nbformat import v4
from nbgrader import utils
from nbgrader.preprocessors import GetGrades, NbGraderPreprocessor

from course.grader.grade import CellError, grade_notebook
from course.grader.launches import Launches
from course.grader.limits import Limits
from marking import sandbox
from marking.answers import harmless
from marking.course import Course

LIMITS = Limits(cell_s=20, call_s=10, test_s=30, launch_s=60, total_s=300)
# A part of a test cell or a question that only the instructor sees.
REGION = re.compile(
    r"^[^\n]*BEGIN (HIDDEN TESTS|MARK SCHEME)[^\n]*$.*?^[^\n]*END \1[^\n]*$\n?", re.MULTILINE | re.DOTALL
)


class GradeHandIn(NbGraderPreprocessor):
    """Grade a hand-in in the sandbox, and write the verdicts as outputs of its test cells.

    nbgrader gives a test cell its points if there is no error in its outputs.
    """

    def preprocess(self, notebook, resources):
        with contextlib.closing(Launches(sandbox.start_launcher, LIMITS)) as launches:
            found = grade_notebook(
                notebook, hidden=True, start_worker=sandbox.start_worker, launches=launches, limits=LIMITS
            )
        verdicts = {verdict.grade_id: verdict for verdict in found.verdicts}
        results = {result.index: result for result in found.cells}
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            cell.outputs = []
            if utils.is_grade(cell) and not utils.is_solution(cell):
                verdict = verdicts[cell.metadata.nbgrader["grade_id"]]
                error = None if verdict.passed else CellError("NotPassed", verdict.message)
                cell.outputs = list(_outputs(verdict.printed, error))
            elif index in results:
                cell.outputs = list(_outputs(results[index].printed, results[index].error))
        notebook.metadata["examination"] = {"notes": found.notes}
        return notebook, resources


class Grades(GetGrades):
    """nbgrader's own step, which also notes whose page it is, what a question is called, and what nobody has marked."""

    def preprocess(self, notebook, resources):
        notebook, resources = super().preprocess(notebook, resources)
        with self.gradebook:
            person = self.gradebook.find_student(self.student_id)
            resources["nbgrader"]["student_name"] = f"{person.first_name or ''} {person.last_name or ''}".strip()
        # Found while collecting; those found while marking may tell of hidden tests.
        notes = Course(Path(self.config.CourseDirectory.root)).notes(self.assignment_id, self.student_id)
        resources["nbgrader"]["reasons"] = list(notes.collected)
        resources["nbgrader"]["unmarked"] = sum(
            cell.metadata.get("nbgrader", {}).get("unmarked", False) for cell in notebook.cells
        )
        return notebook, resources

    def _get_comment(self, cell, resources):
        super()._get_comment(cell, resources)
        cell.metadata.nbgrader["comment"] = harmless(cell.metadata.nbgrader["comment"] or "")

    def _get_score(self, cell, resources):
        super()._get_score(cell, resources)
        ours = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(ours["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
        ours["unmarked"] = grade.auto_score is None and grade.manual_score is None
        number, _, name = ours["grade_id"].removesuffix("_test").partition("_")
        ours["title"] = f"Question {number.lstrip('q0')}: {name.replace('_', ' ')}"


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
