"""Feedback for students: a page for each, and a folder with MathJax, which all pages share."""

import io
import re
import zipfile
from pathlib import Path

import nbgrader.server_extensions.formgrader
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from marking import formulas, process_pool
from marking.autograde import rows
from marking.course import Course, write

TEMPLATES = [
    str(Path(module).with_name("templates")) for module in (__file__, nbgrader.server_extensions.formgrader.__file__)
]
PAGE_S = 120
ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Entry|Notebook): .*", re.MULTILINE)
ELSEWHERE = re.compile(
    r'<a href="(?!#|[A-Za-z][\w+.-]*:)[^"]*"[^>]*>(.*?)</a>', re.DOTALL
)  # of a file in the same folder
LINK = '<script src="../../_shared/formulas.js"></script>'


def feedback(course: Course, lesson: str) -> tuple[int, dict[str, str]]:
    """Generate all feedback with nbgrader, and a zip archive of it.

    Return the number of pages, and {student: reason} for those without one. In the archive, a page is in a folder named
    like the folder of its hand-in, by which a learning platform knows whose it is. A platform hands out each folder
    alone: a page in one that it named has MathJax in it.
    """
    app = course.nbgrader()
    app.update_config(Config({"HTMLExporter": {"template_file": "page.html.j2", "extra_template_basedirs": TEMPLATES}}))
    marked = [
        row.student.id
        for row in rows(course, lesson)
        if row.auto is not None and course.notebook("autograded", lesson, row.student.id).exists()
    ]
    script = course.folder / "feedback" / "_shared" / "formulas.js"  # no student's id begins so
    write(script, formulas.script())

    def make(student):
        app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
        converter = GenerateFeedback(coursedir=app.coursedir, parent=app)
        converter.force = True
        converter.start()
        page = course.step("feedback", lesson, student) / f"{lesson}.html"
        write(page, _finished(page.read_text()))

    failed = {}

    def done(student, failure, log):
        if failure:
            failed[student] = f"{(ERROR.findall(log.read_text()) or [failure])[0]}; see {log}"
        return "no page" if failure else ""

    process_pool.each(course, app, f"feedback {lesson}", marked, make, done, PAGE_S)
    pages = [student for student in marked if student not in failed]
    _pack(course, lesson, pages, script)
    return len(pages), failed


def _finished(page):
    """Add the shared script, which draws formulas, to a page, and make plain text of links to other lessons."""
    head, rest, body = page.partition("</head>")
    return head.replace("<!-- shared -->", formulas.POLICY + LINK, 1) + rest + ELSEWHERE.sub(r"\1", body)


def _pack(course, lesson, students, script):
    """Write the zip archive of the pages."""
    names = {student: course.notes(lesson, student).came_as or student for student in students}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, name in names.items():
            page = (course.step("feedback", lesson, student) / f"{lesson}.html").read_text()
            if name != student:
                page = page.replace(LINK, f"<script>{script.read_text()}</script>", 1)
            archive.writestr(f"{name}/{lesson}.html", page.replace("../../_shared/", "../_shared/", 1))
        if any(student == name for student, name in names.items()):
            archive.write(script, "_shared/formulas.js")
    write(course.folder / f"feedback-{lesson}.zip", packed.getvalue())
