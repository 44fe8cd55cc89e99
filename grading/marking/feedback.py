"""Feedback for students, and the instructor's table of grades."""

import errno
import io
import os
import re
import zipfile

from nbgrader.converters import GenerateFeedback

from marking.autograde import Row, rows
from marking.course import Course, write
from marking.platforms import PLATFORMS, csv_text, safe

__all__ = ["feedback", "grades"]

COLUMNS = (
    "student",
    "first_name",
    "last_name",
    "email",
    "lesson",
    "auto",
    "manual",
    "total",
    "max",
    "to_mark_by_hand",
    "needs_a_look",
)
PAGE_BYTES = 5 * 2**20  # of a page without answers: most of it is MathJax
NO_SPACE = os.strerror(errno.ENOSPC)
ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Entry|Notebook): .*", re.MULTILINE)


def feedback(course: Course, lesson: str) -> tuple[int, dict[str, str]]:
    """Generate all feedback with nbgrader, and a zip archive of it.

    Return the number of pages, and {student: reason} for those without one. In the archive, a page is in a folder named
    like the one its hand-in came in, by which a learning platform knows whose it is.
    """
    app = course.nbgrader()
    failed = {}
    marked = [
        row.student.id
        for row in rows(course, lesson)
        if row.auto is not None and course.notebook("autograded", lesson, row.student.id).exists()
    ]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as pages:
        for student in marked:
            marks = course.notebook("autograded", lesson, student)
            course.check_room(PAGE_BYTES + 2 * marks.stat().st_size)
            app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
            converter = GenerateFeedback(coursedir=app.coursedir, parent=app)
            converter.force = True
            with course.log(f"feedback-{lesson}-{student}", app) as log:
                try:
                    converter.start()
                except Exception as error:  # one student's page does not stop the others
                    said = ERROR.findall(log.read_text()) or [str(error)]
                    if NO_SPACE in said[0]:  # and nbgrader has taken its part of a page away
                        raise OSError(errno.ENOSPC, NO_SPACE, str(course.folder)) from None
                    failed[student] = f"{said[0]}; see {log}"
                    continue
            page = course.step("feedback", lesson, student) / f"{lesson}.html"
            name = course.notes(lesson, student).came_as or student
            pages.writestr(f"{name}/{page.name}", page.read_bytes())
    write(course.folder / f"feedback-{lesson}.zip", archive.getvalue())
    return len(marked) - len(failed), failed


def grades(course: Course, lessons: list[str]) -> tuple[list[str], list[Row]]:
    """Write grades.csv, with a line for each student and lesson, and what learning platforms take in.

    Return the paths and the rows.
    """
    marks = {lesson: rows(course, lesson) for lesson in lessons}
    table = [COLUMNS]
    for lesson, found in marks.items():
        for row in found:
            person = row.student
            points = (row.auto, row.manual, row.total, row.max, row.waiting)
            known = map(safe, (person.id, person.first_name, person.last_name, person.email))
            table.append([*known, lesson, *points, safe("; ".join(row.reasons))])
    texts = {"grades.csv": csv_text(table)}
    texts |= {f"grades-{name}.csv": write_of(marks) for name, write_of in PLATFORMS.items()}
    for name, content in texts.items():
        write(course.folder / name, content)
    return [str(course.folder / name) for name in texts], [row for found in marks.values() for row in found]
