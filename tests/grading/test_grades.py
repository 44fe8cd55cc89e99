"""When lessons are due, and marks as Moodle and Canvas take them in."""

import csv
import io
import shutil
import time
from datetime import datetime, timedelta

import pytest

from ddl.errors import CourseError
from marking.autograde import Row
from marking.course import Course
from marking.due import days_late, due, set_due
from marking.grades import canvas, moodle
from marking.students import Student, enrol

ADA = Student("ada01", "Ada", "Lovelace", "ada@example.org")
BOB = Student("bob", "=1+1", "", "")
MARKS = {
    "1.First": [Row(ADA, 5.0, 2.5, 8.0, 0, []), Row(BOB, None, None, 8.0, 0, [])],
    "2.Second": [Row(ADA, 3.0, 0.0, 4.0, 1, [])],
}


def rows(table):
    return list(csv.reader(io.StringIO(table.to_csv(index=False))))


def test_moodle_export_has_a_row_per_student():
    assert rows(moodle(MARKS)) == [
        ["First name", "Last name", "ID number", "Email address", "1.First", "2.Second"],
        ["Ada", "Lovelace", "ada01", "ada@example.org", "7.5", ""],  # an answer of the second waits
        ["'=1+1", "", "bob", "", "", ""],
    ]


def test_canvas_export_has_points_possible():
    assert rows(canvas(MARKS)) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "1.First", "2.Second"],
        ["    Points Possible", "", "", "", "", "8", "4"],
        ["Lovelace, Ada", "", "", "ada01", "", "7.5", ""],
        ["'=1+1", "", "", "bob", "", "", ""],
    ]


def test_due_date_for_class_and_extension_for_student(tmp_path, empty_gradebook):
    course = Course(tmp_path)
    shutil.copy(empty_gradebook, tmp_path / "gradebook.db")
    enrol(course, [Student("ann"), Student("bob")])

    def dates():
        with course.gradebook() as gradebook:
            return [(who, when[:16]) for who, when in due(gradebook, "1.First").items()]

    with course.gradebook() as gradebook:
        gradebook.add_assignment("1.First")
    for when, student, reason in (
        ("2026-12-03 18:00", "ann", "no due date"), ("soon", "", "not a date"), ("none", "eve", "no student"),
    ):  # fmt: skip
        with pytest.raises(CourseError, match=reason):
            set_due(course, "1.First", when, student)
    assert dates() == []
    set_due(course, "1.First", "2026-12-01 18:00")
    set_due(course, "1.First", "2026-12-03 18:00", "an")
    assert dates() == [("everybody", "2026-12-01 18:00"), ("ann", "2026-12-03 18:00")]
    set_due(course, "1.First", "none", "ann")
    assert dates() == [("everybody", "2026-12-01 18:00")]
    set_due(course, "1.First", "2026-12-03 18:00", "ann")
    set_due(course, "1.First", "none")
    with course.gradebook() as gradebook:
        assert gradebook.find_submission("1.First", "ann").extension is None


@pytest.fixture
def berlin(monkeypatch):
    """The time zone in which clocks went back on 2026-10-25."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_days_and_extensions_are_counted_on_the_local_clock(berlin, tmp_path, empty_gradebook):
    day = datetime(2026, 10, 24, 18)  # 20:00 in Berlin
    assert days_late(day, datetime(2026, 10, 25, 18, 30)) == 1  # 19:30 the next day, an hour longer than a day
    assert [days_late(day, day + timedelta(hours=hours)) for hours in (-1, 0, 1, 25, 25.1)] == [0, 0, 1, 1, 2]
    course = Course(tmp_path)
    shutil.copy(empty_gradebook, tmp_path / "gradebook.db")
    enrol(course, [Student("ann")])
    with course.gradebook() as gradebook:
        gradebook.add_assignment("1.First")
    set_due(course, "1.First", "2026-10-24 20:00")
    set_due(course, "1.First", "2026-10-26 20:00", "ann")
    set_due(course, "1.First", "2026-10-17 20:00")
    with course.gradebook() as gradebook:
        assert due(gradebook, "1.First") == {"everybody": "2026-10-17 20:00 CEST", "ann": "2026-10-19 20:00 CEST"}
