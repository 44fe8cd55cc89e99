"""Due dates of lessons and extensions for students, in nbgrader."""

from datetime import UTC, datetime

from nbgrader.api import Gradebook, MissingEntry

from course.lab.notebooks import the_one
from ddl.errors import InputError
from marking.course import Course, MarkingError

DAY_S = 86_400


def set_due(course: Course, lesson: str, when: str, student: str = "") -> None:
    """Set when a lesson is due, or when it is for one student; `when` is an ISO date and time of this machine, or none.

    An extension is kept as a length of time, and moves with everybody's date. It is counted on the local clock: a day
    after 18:00 is 18:00, even if the clocks change in between.

    Raises
    ------
    InputError, MarkingError
    """
    try:
        utc = None if when == "none" else as_utc(datetime.fromisoformat(when))
    except ValueError:
        raise InputError(f"WHEN={when} is not a date and time: write it like 2026-12-01 18:00, or none") from None
    with course.gradebook() as gradebook:
        assignment = gradebook.find_assignment(lesson)
        if not student:
            before, assignment.duedate = assignment.duedate, utc
            for submission in assignment.submissions:
                if submission.extension and utc and before:
                    later = local(before + submission.extension) - local(before)
                    submission.extension = as_utc(local(utc) + later) - utc
                elif utc is None:
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
    extended = sorted((each.student_id, _shown(each.duedate)) for each in assignment.submissions if each.extension)
    return {"everybody": _shown(assignment.duedate), **dict(extended)}


def days_late(due: datetime | None, handed_in: datetime | None) -> int:
    """Return how many days after its due date a hand-in came, rounded up; both times as nbgrader keeps them, in UTC."""
    if due is None or handed_in is None or handed_in <= due:
        return 0
    return max(1, -int(-(local(handed_in) - local(due)).total_seconds() // DAY_S))


def local(utc: datetime) -> datetime:
    """Return what this machine's clock shows at a time without a zone, which is in UTC."""
    return utc.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def as_utc(local: datetime) -> datetime:
    """Return the time in UTC, without a zone, at which this machine's clock shows `local`."""
    return local.astimezone(UTC).replace(tzinfo=None)


def _shown(utc):
    return f"{utc.replace(tzinfo=UTC).astimezone():%Y-%m-%d %H:%M %Z}"
