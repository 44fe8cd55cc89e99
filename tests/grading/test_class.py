"""A class of submissions, hostile ones among them, marked in one `make autograde`."""

import html
import re

import nbformat
import pytest

from helpers import MARKING

pytestmark = pytest.mark.timeout(1200)

SQL = """
import glob, sqlite3
for path in [{course!r} + "/gradebook.db", *glob.glob("/**/gradebook.db", recursive=True)]:
    try:
        with sqlite3.connect(path) as gradebook:
            gradebook.execute("UPDATE grade SET auto_score = 99, manual_score = 99")
    except sqlite3.Error as error:
        print(error)
"""
ENDLESS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
LOOPS = "def mean(values):\n    while not values: {}\n    return sum(values) / len(values)"
CONFLICT = "<<<<<<< local\n=======\n>>>>>>> remote"


class Hostile:
    """The class: what each hands in, what it must get, and what a person must be told."""

    def __init__(self, lesson, folder, course):
        self.lesson, self.folder, self.course = lesson, folder, str(course)
        self.without_last = lesson.auto - lesson.points[lesson.tests[-1]]
        self.marks, self.looks = {"nothing": None}, {"nothing": None}

    def add(self, student, notebook, mark, look=None):
        path = self.folder / student / f"{self.lesson.name}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
        self.marks[student], self.looks[student] = mark, look

    def with_cell(self, notebook, source):
        notebook.cells.insert(0, nbformat.v4.new_code_cell(source))
        return notebook

    def answered(self, source, name=None):
        """Everything right but one answer, by default the last."""
        notebook = self.lesson.right()
        cell = self.lesson.answer(notebook, name) if name else self.lesson.code_answers(notebook)[-1]
        cell.source = source
        return notebook

    def answers(self):
        """What a lesson's own tests must tell apart."""
        self.add("right", self.lesson.right(), self.lesson.auto)
        self.add("stub", self.lesson.untouched(), 0)
        stub = self.lesson.code_answers(self.lesson.untouched())[-1].source
        self.add("partly", self.answered(stub), self.without_last)

    def attacks(self):
        """Attacks on marking itself, with any lesson; more in test_examine.py."""
        full, mean = self.lesson.auto, self.lesson.auto - self.lesson.points["q01_mean_test"]
        self.add("sql", self.with_cell(self.lesson.untouched(), SQL.format(course=self.course)), 0)
        self.add("exit", self.with_cell(self.lesson.right(), "import os; os._exit(0)"), full, "cell 1")
        self.add("endless", self.answered(ENDLESS), self.without_last, "did not end within")
        for student, does in (("hidden", "pass"), ("talkative", "print('x' * 10**6)")):
            self.add(student, self.answered(LOOPS.format(does), "q01_mean"), mean, "in the run for hidden tests")
        self.add("conflict", self.answered(CONFLICT, "q01_mean"), mean, "q01_mean is not valid Python")


SIZES = [
    pytest.param("tiny", marks=pytest.mark.slow),
    pytest.param("real", marks=pytest.mark.nightly("lessons/1*", *MARKING)),
]


@pytest.fixture(scope="module", params=SIZES)
def marked(request, tmp_path_factory, orphans, course_folder):
    """The class, marked once: the course folder, what was said, what there is to expect.

    The small lesson takes all attacks, and a real one shows that its answers and tests fare as those do.
    """
    lesson = request.getfixturevalue(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    course = course_folder(folder / "course", lesson)
    everyone = Hostile(lesson, folder / "handed in", course.folder)
    everyone.answers()
    if request.param == "tiny":
        everyone.attacks()
    course.release([(student, student.title(), "Test", "") for student in everyone.marks])
    course.make("collect", f"FROM={everyone.folder}")
    course.said = course.make("autograde")
    course.left = [str(process) for process in orphans()]
    course.everyone = everyone
    return course


def test_everybody_gets_the_right_mark(marked):
    assert marked.totals() == marked.everyone.marks


def test_table_gives_the_reason_for_a_look(marked):
    reasons = {student: "; ".join(row.reasons) for student, row in marked.rows().items()}
    for student, look in marked.everyone.looks.items():
        assert look is None or look in reasons[student], (student, reasons[student])
    for student in {"right", "stub", "partly", "nothing"} & set(reasons):
        assert not reasons[student], (student, reasons[student])


def test_nothing_is_left_running(marked):
    assert marked.left == []


def test_feedback_shows_no_hidden_test(marked):
    """Neither its words nor, colored as code, what they are made of."""
    from marking.preprocessors import REGION

    marked("feedback")  # answers wait for a person
    locked = [cell.source for cell in marked.lesson.solved.cells if cell.metadata.get("nbgrader", {}).get("locked")]
    shown = {line for source in locked for line in REGION.sub("", source).splitlines()}
    kept_back = {line.strip() for source in locked for line in source.splitlines() if line not in shown}
    words = {word for line in kept_back for word in re.findall(r"canary_\w+|canary [\w ]+", line)}
    pages = list(marked.folder.glob("feedback/*/*/*.html"))
    assert len(pages) == len(marked.everyone.marks) - 1
    for page in pages:
        text = html.unescape(re.sub(r"<[^>]*>", "", page.read_text()))
        assert "HIDDEN TESTS" not in text and "MARK SCHEME" not in text
        assert ("Time limit exceeded" in text) == (page.parts[-3] in ("hidden", "talkative"))
        for secret in [*kept_back, *words]:
            assert len(secret) < 20 or secret not in text, (page.parts[-3], secret)
