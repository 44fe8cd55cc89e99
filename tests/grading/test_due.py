"""When a lesson is due."""

import shutil

import pytest

from ddl.errors import CourseError
from marking.course import Course
from marking.due import days_late, due, set_due
from marking.students import Student, enrol


def test_a_due_date_is_everybodys_and_an_extension_one_students(tmp_path, empty_gradebook, monkeypatch):
    course = Course(tmp_path)
    shutil.copy(empty_gradebook, tmp_path / "gradebook.db")
    enrol(course, [Student("ann"), Student("bob")])

    def dates():
        with course.gradebook() as gradebook:
            return [(who, when[:16]) for who, when in due(gradebook, "1.First")]

    with course.gradebook() as gradebook:
        gradebook.add_assignment("1.First")
    with pytest.raises(CourseError, match="no due date to extend"):
        set_due(course, "1.First", "2026-12-03 18:00", "ann")
    with pytest.raises(CourseError, match="WHEN=soon is no date"):
        set_due(course, "1.First", "soon")
    assert dates() == []
    set_due(course, "1.First", "2026-12-01 18:00")
    set_due(course, "1.First", "2026-12-03 18:00", "an")
    assert dates() == [("everybody", "2026-12-01 18:00"), ("ann", "2026-12-03 18:00")]
    with pytest.raises(CourseError, match="STUDENT=eve names 0 students"):
        set_due(course, "1.First", "none", "eve")
    set_due(course, "1.First", "none", "ann")
    assert dates() == [("everybody", "2026-12-01 18:00")]
    set_due(course, "1.First", "2026-12-03 18:00", "ann")
    set_due(course, "1.First", "none")
    with course.gradebook() as gradebook:
        assert gradebook.find_submission("1.First", "ann").extension is None


@pytest.mark.parametrize("seconds, days", [(0, 0), (1, 1), (86_400, 1), (86_401, 2)])
def test_a_day_that_has_begun_counts(seconds, days):
    assert days_late(seconds) == days
