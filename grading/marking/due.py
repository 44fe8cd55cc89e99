"""Due dates of lessons and extensions for students, in nbgrader."""

from datetime import datetime, timedelta, timezone

from nbgrader.api import Gradebook, MissingEntry

from course.lab.notebooks import the_one
from ddl.errors import InputError
from marking.course import Course, MarkingError

UTC = timezone(timedelta(0))  # Python 3.10 has no name for it


def set_due(course: Course, lesson: str, when: str, student: str = "") -> None:
    """Set when a lesson is due, or when it is for one student; `when` is an ISO date and time of this machine, or none.

    An extension is kept as a length of time, and moves with everybody's date.

    Raises
    ------
    InputError, MarkingError
    """
    try:
        utc = None if when == "none" else datetime.fromisoformat(when).astimezone(UTC).replace(tzinfo=None)
    except ValueError:
        raise InputError(f"WHEN={when} is not a date and time: write it like 2026-12-01 18:00, or none") from None
    with course.gradebook() as gradebook:
        assignment = gradebook.find_assignment(lesson)
        if not student:
            assignment.duedate = utc
            for submission in assignment.submissions if utc is None else ():
                submission.extension = None  # of nothing, which nbgrader cannot add
        else:
            student = the_one("student", student, sorted(person.id for person in gradebook.students))
            if assignment.duedate is None:
                raise MarkingError(f"{lesson} has no due date to extend: set it without STUDENT first")
            with gradebook.db.no_autoflush:  # nbgrader's own way to add one would warn of it
                submission = gradebook.update_or_create_submission(lesson, student)
            submission.extension = None if utc is None else utc - assignment.duedate
        gradebook.db.commit()


def due(gradebook: Gradebook, lesson: str) -> dict[str, str]:
    """When a lesson is due for "everybody", and for each student with an extension, as texts of local time."""
    try:
        assignment = gradebook.find_assignment(lesson)
    except MissingEntry:
        return {}
    if assignment.duedate is None:
        return {}
    extended = sorted((each.student_id, _local(each.duedate)) for each in assignment.submissions if each.extension)
    return {"everybody": _local(assignment.duedate), **dict(extended)}


def _local(utc):
    return f"{utc.replace(tzinfo=UTC).astimezone():%Y-%m-%d %H:%M %Z}"
