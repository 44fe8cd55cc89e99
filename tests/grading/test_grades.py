"""Marks as Moodle and Canvas take them in."""

import csv
import io

from marking.autograde import Row
from marking.grades import canvas, moodle
from marking.students import Student

ADA = Student("ada01", "Ada", "Lovelace", "ada@example.org")
BOB = Student("bob", "=1+1", "", "")
MARKS = {
    "1.First": [Row(ADA, 5.0, 2.5, 8.0, 0, []), Row(BOB, None, None, 8.0, 0, [])],
    "2.Second": [Row(ADA, 3.0, 0.0, 4.0, 1, [])],
}


def rows(text):
    return list(csv.reader(io.StringIO(text)))


def test_moodle_has_a_row_for_each_student_and_a_column_for_each_lesson():
    assert rows(moodle(MARKS)) == [
        ["First name", "Last name", "ID number", "Email address", "1.First", "2.Second"],
        ["Ada", "Lovelace", "ada01", "ada@example.org", "7.5", ""],  # an answer of the second waits
        ["'=1+1", "", "bob", "", "", ""],
    ]


def test_canvas_has_what_each_lesson_is_worth_in_its_second_row():
    assert rows(canvas(MARKS)) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "1.First", "2.Second"],
        ["    Points Possible", "", "", "", "", "8", "4"],
        ["Lovelace, Ada", "", "", "ada01", "", "7.5", ""],
        ["'=1+1", "", "", "bob", "", "", ""],
    ]
