"""A class of submissions, hostile ones among them, marked in one `make autograde`."""

import html
import json
import re
import textwrap

import nbformat
import pytest

from helpers import MARKING

pytestmark = pytest.mark.timeout(1200)

# Attacks in a separate first cell; more in test_examine.py. `course` is the real path.
ATTACKS = {
    "sql": """
        import glob, sqlite3
        for path in [course + "/gradebook.db", *glob.glob("/**/gradebook.db", recursive=True)]:
            try:
                with sqlite3.connect(path) as gradebook:
                    gradebook.execute("UPDATE grade SET auto_score = 99, manual_score = 99")
            except sqlite3.Error as error:
                print(error)
    """,
    "reader": """
        import os
        found = [path for path in (course, course + "/gradebook.db") if os.path.exists(path)]
        for folder, _, files in os.walk("/"):
            for name in files:
                if name.endswith((".ipynb", ".db")) and not folder.startswith(("/proc", "/sys")):
                    try:
                        with open(os.path.join(folder, name), "rb") as file:
                            if b"BEGIN HIDDEN" in file.read() and "/nbgrader/" not in folder:
                                found.append(os.path.join(folder, name))
                    except OSError:
                        pass
        print("found:", found)
    """,
    "exit": "import os; os._exit(0)",
    "noisy": """
        import sys, warnings
        print("so far so good")
        print("on standard error", file=sys.stderr)
        warnings.warn("careful")
    """,
}
NOISY = """
def _noisy(function):
    def wrapped(*arguments, **named):
        print("called", file=sys.stderr)
        warnings.warn("called")
        return function(*arguments, **named)
    return wrapped

for _name, _value in list(globals().items()):
    ours = type(_value) is type(_noisy) and _value.__module__ == "__main__"
    if ours and not _name.startswith("_"):
        globals()[_name] = _noisy(_value)
"""
ENDLESS = "while True:\n    try:\n        while True: pass\n    except BaseException: pass"


def own_cell(notebook, source, place=0):
    notebook.cells.insert(place, nbformat.v4.new_code_cell(textwrap.dedent(source)))
    return notebook


class Hostile:
    """The class: what each hands in, what it must get, and what a person must be told."""

    def __init__(self, lesson, folder, course):
        self.lesson, self.folder = lesson, folder
        self.course = str(course)
        self.without_last = lesson.auto - lesson.points[lesson.tests[-1]]
        self.marks, self.looks = {}, {}
        folder.mkdir()

    def add(self, student, content, mark, look=None, name=None):
        path = self.folder / student / (name or f"{self.lesson.name}.ipynb")
        path.parent.mkdir(exist_ok=True)
        if not isinstance(content, bytes):
            content = nbformat.writes(content).encode()
        path.write_bytes(content)
        self.marks[student], self.looks[student] = mark, look
        return path

    def attack(self, kind, notebook):
        return own_cell(notebook, f"course = {self.course!r}\n{textwrap.dedent(ATTACKS[kind])}")

    def answers(self):
        """What a lesson's own tests must tell apart, or must not mind."""
        lesson, full = self.lesson, self.lesson.auto
        right, untouched = lesson.right, lesson.untouched
        self.add("right", right(), full)
        self.add("stub", untouched(), 0)
        partly = right()
        last_answer = lesson.code_answers(partly)[-1]
        last_answer.source = lesson.code_answers(untouched())[-1].source
        self.add("partly", partly, self.without_last)
        noisy = self.attack("noisy", right())
        for place in range(len(noisy.cells) - 1, 0, -1):
            if noisy.cells[place].metadata.get("nbgrader", {}).get("grade"):
                own_cell(noisy, NOISY, place)
        self.add("noisy", noisy, full)
        self.add("reader", self.attack("reader", untouched()), 0)
        self.marks["nothing"], self.looks["nothing"] = None, None

    def attacks(self):
        """Attacks on marking itself, with any lesson."""
        lesson, full = self.lesson, self.lesson.auto
        right, untouched = lesson.right, lesson.untouched
        self.add("sql", self.attack("sql", untouched()), 0)
        self.add("exit", self.attack("exit", right()), full, "cell 1")
        endless = right()
        lesson.code_answers(endless)[-1].source = ENDLESS
        self.add("endless", endless, self.without_last, "did not end within")
        for student, does in (("hidden", "pass"), ("talkative", "print('x' * 10**6)")):
            only_hidden = right()
            lesson.answer(
                only_hidden, "q01_mean"
            ).source = f"def mean(values):\n    while not values: {does}\n    return sum(values) / len(values)"
            self.add(student, only_hidden, full - lesson.points["q01_mean_test"], "in the run for hidden tests")
        conflict = right()
        lesson.answer(conflict, "q01_mean").source += "\n<<<<<<< local\n=======\n>>>>>>> remote"
        self.add("conflict", conflict, full - lesson.points["q01_mean_test"], "q01_mean is not valid Python")
        self.add("renamed", right(), full, name="my homework (final).ipynb")
        self.add("broken", b'{"cells": [', 0, "JSON is broken")
        self.add("two", right(), full)
        self.add("two", untouched(), full, name="old.ipynb")
        # Test cells deleted, duplicated, edited.
        tests = lesson.tests
        for kind, make, mark in (("deleted", right, full), ("deleted-stub", untouched, 0)):
            notebook = make()
            for name in tests:
                notebook.cells.remove(lesson.answer(notebook, name))
            self.add(kind, notebook, mark, f"deleted: {tests[0]}")
        notebook = right()
        copied = nbformat.from_dict(json.loads(json.dumps(lesson.answer(notebook, tests[0]))))
        copied.source, copied.id = "pass", "copied"
        notebook.cells.append(copied)
        self.add("duplicated", notebook, full, f"the first counts: {tests[0]}")
        notebook = untouched()
        for name in tests:
            lesson.answer(notebook, name).source = "pass"
        self.add("edited", notebook, 0, f"changed: {tests[0]}")


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


def test_everybody_gets_the_mark_that_is_theirs(marked):
    assert marked.totals() == marked.everyone.marks


def test_who_needs_a_look_is_said_with_the_reason(marked):
    reasons = {student: "; ".join(row.reasons) for student, row in marked.rows().items()}
    for student, look in marked.everyone.looks.items():
        assert look is None or look in reasons[student], (student, reasons[student])
    for student in {"right", "stub", "partly", "noisy", "renamed", "two", "nothing"} & set(reasons):
        assert not reasons[student], (student, reasons[student])


def test_nothing_is_left_running(marked):
    assert marked.left == []


def test_nothing_of_the_instructors_was_found(marked):
    outputs = [each for cell in marked.notebook("autograded", "reader").cells for each in cell.get("outputs", ())]
    (found,) = [output.text for output in outputs if "found:" in output.get("text", "")]
    assert found.strip() == "found: []"


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
