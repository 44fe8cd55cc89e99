"""A class of submissions, odd, late and hostile ones among them, from release to feedback; and each lesson with one."""

import html
import json
import os
import re
import time
from datetime import datetime

import nbformat
import pytest

import lessons
from course.grader import cells
from helpers import MARKING, ROOT

pytestmark = pytest.mark.timeout(1200)

ENDLESS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
LOOPS = "def mean(values):\n    while not values: {}\n    return sum(values) / len(values)"
CONFLICT = "<<<<<<< local\n=======\n>>>>>>> remote"


class Class:
    """What each student hands in, what it must get, and what a person must be told."""

    def __init__(self, lesson, folder):
        self.lesson, self.folder = lesson, folder
        last = lesson.code_answers(lesson.right())[-1]
        ids = [
            test.metadata.nbgrader.grade_id for answer, test in cells.tested(lesson.released) if answer.id == last.id
        ]
        self.without_last = lesson.auto - sum(lesson.points[name] for name in ids)
        self.marks, self.looks = {"nothing": None}, {"nothing": None}

    def add(self, student, notebook, mark, look=None):
        path = self.folder / student / f"{self.lesson.name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(notebook if isinstance(notebook, str) else nbformat.writes(notebook))
        self.marks[student], self.looks[student] = mark, look
        return path

    def with_cell(self, notebook, source):
        notebook.cells.insert(0, nbformat.v4.new_code_cell(source))
        return notebook

    def answered(self, source, name=None):
        """Everything right but one answer, by default the last."""
        notebook = self.lesson.right()
        cell = self.lesson.answer(notebook, name) if name else self.lesson.code_answers(notebook)[-1]
        cell.source = source
        return notebook

    def everybody(self):
        """Ten students with any lesson."""
        full, untouched = self.lesson.auto, self.lesson.untouched
        late = self.add("late", self.lesson.right(), full)
        os.utime(late, (time.time() + 2 * 86_400,) * 2)
        self.add("stub", untouched(), 0)
        self.add("partly", self.answered(self.lesson.code_answers(untouched())[-1].source), self.without_last)
        split = self.lesson.right()
        cell = self.lesson.code_answers(split)[0]
        if not cell.source.startswith("%%"):
            part = nbformat.v4.new_code_cell("# what follows is mine", metadata=cell.metadata)
            split.cells.insert(split.cells.index(cell), part)
        self.add("split", split, full)
        self.add("format3", nbformat.convert(untouched(), 3), 0)
        deleted = untouched()
        deleted.cells.remove(self.lesson.answer(deleted, self.lesson.tests[0]))
        self.add("deleted", deleted, 0, "graded cells were deleted")
        self.add("broken", "{", 0, "is not a notebook")
        self.add("merged", json.dumps({"cells": [{"cell_type": "code", "source": CONFLICT}, 3]}), 0, "deleted")
        endless = untouched()
        self.lesson.code_answers(endless)[-1].source = ENDLESS
        self.add("endless", endless, 0, "did not end within")

    def attacks(self):
        """Attacks on marking itself; more in test_examine.py."""
        full, mean = self.lesson.auto, self.lesson.auto - self.lesson.points["q01_mean_test"]
        self.add("exit", self.with_cell(self.lesson.right(), "import os; os._exit(0)"), full, "cell 1")
        for student, does in (("hidden", "pass"), ("talkative", "print('x' * 10**6)")):
            self.add(student, self.answered(LOOPS.format(does), "q01_mean"), mean, "in the run for hidden tests")
        self.add("conflict", self.answered(CONFLICT, "q01_mean"), mean)


NAMES = [source.stem for source in lessons.sources(ROOT) if '"grade": true' in source.read_text()]
LESSONS = [pytest.param("tiny", marks=pytest.mark.slow)]
for name in NAMES:
    patterns = MARKING if name in ("1.Gradient-Basics", "3.Multi-GPU") else ()
    LESSONS.append(pytest.param(name, marks=pytest.mark.nightly(f"lessons/{name}.py", *patterns)))


@pytest.fixture(scope="module", params=LESSONS)
def marked(request, tmp_path_factory, orphans, course_folder, own_lesson):
    """The class, marked once: the course folder, what was said, what there is to expect.

    The small lesson takes all attacks, and the real ones show that their answers and tests fare as those do.
    """
    lesson = request.getfixturevalue("tiny") if request.param == "tiny" else own_lesson(request.param)
    folder = tmp_path_factory.mktemp("class")
    course = course_folder(folder / "course", lesson)
    everyone = Class(lesson, folder / "handed in")
    everyone.everybody()
    if request.param == "tiny":
        everyone.attacks()
    course.release([(student, student.title(), "Test", "") for student in everyone.marks])
    course("due", "--when", f"{datetime.fromtimestamp(time.time() + 86_400):%Y-%m-%d %H:%M}")
    course.make("collect", f"FROM={everyone.folder}")
    course.said = course.make("autograde")
    course.left = [str(process) for process in orphans()]
    course.everyone = everyone
    return course


def test_everybody_gets_the_right_mark(marked):
    assert marked.totals() == marked.everyone.marks
    rows = marked.rows()
    assert {name for name, row in rows.items() if row.days_late} == {"late"}
    read = [name for name in marked.lesson.points if name not in marked.lesson.tests]
    assert rows["late"].waiting == len(read) and rows["late"].max == marked.lesson.max


def test_table_gives_the_reason_for_a_look(marked):
    reasons = {student: "; ".join(row.reasons) for student, row in marked.rows().items()}
    for student, look in marked.everyone.looks.items():
        assert look is None or look in reasons[student], (student, reasons[student])
    again = re.findall(r"^again +\d of \d +(\w+)", marked.said, re.MULTILINE)
    assert set(again) == {student for student, look in marked.everyone.looks.items() if look and "hidden" in look}
    for student in ("late", "stub", "partly", "split", "format3", "nothing"):
        assert not reasons[student], (student, reasons[student])


def test_nothing_is_left_running(marked):
    assert marked.left == []


def test_feedback_shows_no_hidden_test(marked):
    """Neither its words nor, colored as code, what they are made of."""
    from marking.preprocessors import REGION

    marked("feedback")  # answers wait for a person
    locked = [cell.source for cell in marked.lesson.solved.cells if cell.metadata.get("nbgrader", {}).get("locked")]
    answers = [cell.source for cell in marked.lesson.right().cells]  # a right answer may have a line of a hidden test
    shown = "\n".join([*(REGION.sub("", source) for source in locked), *answers])
    kept_back = {line.strip() for source in locked for line in source.splitlines() if line.strip() not in shown}
    words = {word for line in kept_back for word in re.findall(r"canary_\w+|canary [\w ]+", line)}
    pages = list(marked.folder.glob("feedback/*/*/*.html"))
    assert len(pages) == len(marked.everyone.marks) - 1
    for page in pages:
        text = html.unescape(re.sub(r"<[^>]*>", "", page.read_text()))
        assert "HIDDEN TESTS" not in text and "MARK SCHEME" not in text
        assert ("Time limit exceeded" in text) == (page.parts[-3] in ("hidden", "talkative"))
        for secret in [*kept_back, *words]:
            assert len(secret) < 20 or secret not in text, (page.parts[-3], secret)
