"""nbgrader's settings for this course: a course folder's own nbgrader_config.py leads here.

They hold for `make autograde` and the others, for nbgrader's own commands in a course folder, and for the formgrader's
buttons alike.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbgrader import preprocessors as steps

from course.lab.handin import COURSE, EXCHANGE
from marking.preprocessors import GradeHandIn, Grades, Withhold

c = get_config()  # noqa: F821 - what nbgrader reads a settings file with

c.CourseDirectory.course_id = COURSE
if exchange := os.environ.get(EXCHANGE):
    c.Exchange.root = exchange

# A rubric stands in the locked cell that asks the question, where the formgrader shows it right
# above the answer. nbgrader would have it in cells of its kind "task" only.
c.ClearMarkScheme.enforce_metadata = False

# In place of nbgrader's Execute, which runs a hand-in beside the hidden tests and the gradebook.
c.Autograde.autograde_preprocessors = [
    GradeHandIn,
    steps.LimitOutput,
    steps.SaveAutoGrades,
    steps.AssignLatePenalties,
    steps.CheckCellMetadata,
]
c.GenerateFeedback.preprocessors = [Grades, Withhold, CSSHTMLHeaderPreprocessor]
c.HTMLExporter.embed_images = True
