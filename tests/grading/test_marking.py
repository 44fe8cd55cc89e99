"""Marking by real nbgrader: again, after a kill, with marks given by hand, and what is returned."""

import csv
import html
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from datetime import datetime

import pytest

from helpers import output, until
from marking import formulas
from marking.course import Course

pytestmark = pytest.mark.slow


def by_hand(course, student, points, comment=None, name="q03_why"):
    """Enter a mark as the formgrader does."""
    lesson = course.lesson.name
    with Course(course.folder).gradebook() as gradebook:
        grade = gradebook.find_grade(name, lesson, lesson, student)
        grade.manual_score, grade.needs_manual_grade = points, False
        if name == "q03_why":
            gradebook.find_comment(name, lesson, lesson, student).manual_comment = comment
        gradebook.db.commit()


def take_in(course, hand_in, expect=0, **notebooks):
    for student, notebook in notebooks.items():
        hand_in(f"{student}.ipynb", notebook)
    return course("collect", "--from", hand_in.folder, expect=expect)


def table(course):
    with open(course.folder / "grades.csv", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def test_grading_from_collection_to_feedback(course, hand_in, tiny):
    wrong = tiny.right()
    tiny.answer(wrong, "q01_mean").source = "def mean(values):\n    return values[0]"
    tiny.answer(wrong, "q04_double").source = "def double(array):\n    assert len(array), 'empty'\n    return array * 2"
    hand_in("Ann Ames_77_assignsubmission_file_/x.ipynb", tiny.right())
    take_in(course, hand_in, bob=wrong)
    said = course("autograde")
    assert course.totals() == {"ann": 5, "bob": 1, "cyd": None}
    assert re.search(r"^ann +5 / 8 +1 to do$", said, re.M) and "nothing handed in" in said
    by_hand(course, "ann", 2.5, "Nicely put, <b>Ann</b>.")
    said = course("grades")
    assert "grades-moodle.csv" in said and (course.folder / "grades-canvas.csv").read_text().count("7.5") == 1
    assert [table(course)["ann"][key] for key in ("auto", "manual", "total", "max")] == ["5.0", "2.5", "7.5", "8.0"]
    assert [table(course)["cyd"][key] for key in ("total", "email")] == ["", "cyd@example.org"]
    assert re.search(r"^q01_mean_test +2.0 +50% +1 +0 +1 +0$", said, re.M)
    assert re.search(r"^q03_why +3.0 +83% +0 +1 +0 +1$", said, re.M)
    said = course("feedback")
    assert "2 pages under" in said and "not marked yet, and their pages say so: bob" in said
    page = (course.folder / "feedback" / "ann" / tiny.name / f"{tiny.name}.html").read_text()
    assert (
        "Ann Ames (ann)" in page
        and "Nicely put, &lt;\u200bb&gt;Ann" in page
        and "7.5" in page
        and "data:image/svg+xml;base64" in page
    )
    assert "not marked yet" not in page.lower()
    page = (course.folder / "feedback" / "bob" / tiny.name / f"{tiny.name}.html").read_text()
    assert "the mean of 1, 2, 3 is 2, not 1" in page
    assert "hidden test" in page and "canary_in_a_hidden" not in page and "np.zeros" not in page
    assert "1 answer not marked yet" in page and "Question 3: why</a> (not marked yet, 3 to get)" in page
    assert "Not marked yet; points to get: 3.0" in page
    assert "Content-Security-Policy" in page and "MathJax.startup" not in page  # it has no formulas
    assert not re.search(r'src="(?!data:)', page)  # it needs no other file
    with zipfile.ZipFile(course.folder / f"feedback-{tiny.name}.zip") as pages:
        names = [f"Ann Ames_77_assignsubmission_file_/{tiny.name}.html", f"bob/{tiny.name}.html"]
        assert sorted(pages.namelist()) == names


def test_only_a_page_with_formulas_has_mathjax():
    for body in (r"<p>\(x\)</p>", "<p>$x$</p>", r"<pre>$</pre><div>\[x\]</div>"):
        assert formulas.drawn(formulas.PLACE + body) == f"<script>{formulas.script()}</script>{body}"
    body = "<style>$</style><p>5</p><pre>$x$</pre><p>done</p>"
    assert formulas.drawn(formulas.PLACE + body) == body


def test_feedback_says_why_a_file_counts_for_nothing(course, hand_in, tiny):
    hand_in("ann.ipynb", b"{")
    course("collect", "--from", hand_in.folder)
    (reason,) = Course(course.folder).notes(tiny.name, "ann").collected
    course("autograde")
    course("feedback")
    page = (course.folder / "feedback" / "ann" / tiny.name / f"{tiny.name}.html").read_text()
    assert reason in html.unescape(page)


def test_autograde_marks_only_new_hand_ins(course, hand_in, tiny):
    take_in(course, hand_in, ann=tiny.right(), bob=tiny.untouched())
    assert "not marked yet" in course("grades")
    course("autograde")
    by_hand(course, "ann", 2)
    once = course.totals()
    assert "2 hand-ins unchanged" in course("autograde")
    assert "marking   2 of 2" in course("autograde", "--all")
    assert course.totals() == once == {"ann": 7, "bob": 0, "cyd": None}
    worse = tiny.right()
    for name in ("q04_double", "q04_double_test"):
        worse.cells.remove(tiny.answer(worse, name))
    take_in(course, hand_in, ann=worse)
    said = course("autograde", "--student", "bob")
    assert "marking   1 of 1  bob" in said and course.totals()["ann"] == 7
    assert not re.search("^(ann|cyd) ", said, re.M)  # only that row
    said = course("autograde")
    assert "marking   1 of 1  ann" in said and course.totals()["ann"] == 5


def test_late_days_and_extensions(course, hand_in, tiny):
    """nbgrader's own, and set in the course folder's settings.py."""
    wrong = tiny.right()
    tiny.answer(wrong, "q01_mean").source = "def mean(values):\n    return sum(values) / 3"
    now = time.time()
    for student, days in (("ann", 0), ("bob", 1.5), ("cyd", 1.5)):
        os.utime(hand_in(f"{student}.ipynb", wrong), (now + days * 86_400,) * 2)
    course("collect", "--from", hand_in.folder)
    course("due", "--when", f"{datetime.fromtimestamp(now + 3600):%Y-%m-%d %H:%M}")
    later = f"{datetime.fromtimestamp(now + 2 * 86_400):%Y-%m-%d %H:%M}"
    assert f"{later} " in course("due", "--when", later, "--student", "cyd")
    (course.folder / "settings.py").write_text("c = get_config()\nc.LateSubmissionPlugin.penalty_method = 'zero'\n")
    said = course("autograde")
    assert course.totals() == {"ann": 3, "bob": 0, "cyd": 3}
    assert re.search(r"^bob +0 / 8 .* 2 days late \(rounded up\), 3 points less", said, re.M)
    by_hand(course, "bob", 2)
    assert course.totals()["bob"] == 0  # points given by hand afterward are lost as well
    by_hand(course, "bob", None)
    hand_in("bob/regrade.txt", b"please")  # is not a late hand-in
    course("collect", "--from", hand_in.folder)
    course("due", "--when", "none")
    course("autograde")
    assert course.totals()["bob"] == 3


def test_autograde_resumes_after_a_kill(course, hand_in, tiny, orphans, computing):
    slow = tiny.right()
    tiny.answer(slow, "q04_double").source = "while True:\n    pass"
    take_in(course, hand_in, ann=tiny.right(), bob=slow, cyd=tiny.right())
    command = [sys.executable, "-m", "marking", "--course", course.folder, "autograde", tiny.name]
    process = subprocess.Popen(command, env=course.env(), stdout=subprocess.PIPE)
    until(lambda: computing(process.pid))
    assert (course.folder / "autograded" / "bob").exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until(lambda: orphans() == [], 20)
    said = course("autograde")
    assert course.totals() == {"ann": 5, "bob": 3, "cyd": 5}
    assert "did not end within" in said


def test_broken_submission_does_not_stop_the_others(course, hand_in, tiny):
    take_in(course, hand_in, ann=tiny.right(), bob=tiny.right(), cyd=tiny.right())
    course("autograde")
    path = course.folder / "submitted" / "bob" / tiny.name / f"{tiny.name}.ipynb"
    path.write_text("{")
    said = course("autograde")
    assert course.totals() == {"ann": 5, "bob": None, "cyd": 5}
    assert "could not be marked" in said
    course("grades")
    assert table(course)["bob"]["total"] == ""
    course("feedback")
    assert "bob" not in "".join(zipfile.ZipFile(course.folder / f"feedback-{tiny.name}.zip").namelist())


ENDLESS = """
import sys, time
from pathlib import Path
from marking import course, process_pool
work = lambda name: time.sleep(99 if name == "ann" else 0)
done = lambda name, failure, log: failure or "done"
process_pool.each(course.Course(Path(sys.argv[1])), "marking 1", ["ann", "bob", "cyd"], work, done, 1, at_once=1)
"""


def test_marking_of_one_hand_in_that_hangs_is_ended(course):
    said = output(sys.executable, "-c", ENDLESS, course.folder, env=course.env())
    assert re.findall(r"(ann|bob|cyd) .*?(it took more than 1 s|done)", said) == [
        ("ann", "it took more than 1 s"), ("bob", "done"), ("cyd", "done"),
    ]  # fmt: skip


def test_nbgrader_autograde_uses_the_sandbox(course, hand_in, tiny):
    """Whoever types `nbgrader autograde` in the course folder gets the same marks."""
    notebook = tiny.right()
    tiny.answer(notebook, "q02_table").source = "squares = [1, 4, 9]\nopen('/etc/passwd')"
    take_in(course, hand_in, ann=notebook)
    command = [sys.executable, "-m", "nbgrader", "autograde", tiny.name, "--student", "ann"]
    output(*command, cwd=course.folder)
    assert course.totals()["ann"] == 5
    (answer,) = [
        cell for cell in course.notebook("autograded", "ann").cells if cell.source.endswith("open('/etc/passwd')")
    ]
    assert answer.outputs[0].ename == "FileNotFoundError"


def test_manual_marks_need_review_after_new_hand_in(course, hand_in, tiny):
    """Those for answers that are as they were do not."""
    take_in(course, hand_in, ann=tiny.right(), bob=tiny.right(), cyd=tiny.right())
    course("autograde")
    for student in ("ann", "bob", "cyd"):
        by_hand(course, student, 2.5, "Nicely put.")
    by_hand(course, "cyd", 1, None, name="q01_mean_test")
    anew, helped, other = tiny.right(), tiny.right(), tiny.right()
    tiny.answer(anew, "q03_why").source = "Because I say so."
    tiny.answer(helped, "q02_table").source += "\n# all of them"
    tiny.answer(other, "q01_mean").source += "\n# now better"
    take_in(course, hand_in, ann=anew, bob=helped, cyd=other)
    assert all("handed in again, and not marked since" in row.reasons for row in course.rows().values())
    for again in ("autograde", "autograde --all"):  # it stays until somebody looks
        said = course(*again.split())
        assert course.totals() == {
            "ann": 7.5,
            "bob": 7.5,
            "cyd": 6.5,
        } and "has changed since you marked it" in " ".join(said.split())
        rows = course.rows()
        assert [rows[name].waiting for name in ("ann", "bob", "cyd")] == [1, 0, 1]
        assert "q03_why has changed" in rows["ann"].reasons[0]
        assert "q01_mean_test has changed" in rows["cyd"].reasons[0] and not rows["bob"].reasons
    by_hand(course, "ann", 0.5)
    by_hand(course, "cyd", 2, None, name="q01_mean_test")
    course("autograde")
    assert course.totals() == {"ann": 5.5, "bob": 7.5, "cyd": 7.5}
    assert not any(row.waiting or row.reasons for row in course.rows().values())
