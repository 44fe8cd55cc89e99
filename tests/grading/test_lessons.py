"""The course's own lessons through the pipeline: model answers get every point that tests give.

Lesson 1 goes through it in test_class.py, as a class does. That a question without an answer gets no point is looked at
where answers are judged fast (test_variants.py).
"""

import pytest

import lessons
from helpers import ROOT

LESSONS = [
    pytest.param(name, marks=pytest.mark.nightly(f"lessons/{name}.py", "grading/marking/*"))
    for name in (source.stem for source in lessons.sources(ROOT))
    if name not in ("Start_Here", "1.Gradient-Basics")
]


@pytest.mark.parametrize("name", LESSONS)
def test_right_answers_get_all_points(name, own_lesson, course_folder, hand_in, tmp_path):
    lesson = own_lesson(name)
    course = course_folder(tmp_path / "course", lesson)
    course.release([("ann", "Ann", "Ames", "")])
    hand_in("ann.ipynb", lesson.right())
    course("collect", "--from", hand_in.folder)
    course("autograde")
    rows = course.rows()
    read = [grade_id for grade_id in lesson.points if grade_id not in lesson.tests]
    assert (rows["ann"].auto, rows["ann"].waiting) == (lesson.auto, len(read))
    assert rows["ann"].max == lesson.max
