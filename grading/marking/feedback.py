"""Feedback for students: a page for each, with what all pages share in one folder beside them."""

import hashlib
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

SHARED = "_shared"  # no student's id begins so
TEMPLATES = [
    str(Path(module).with_name("templates")) for module in (__file__, nbgrader.server_extensions.formgrader.__file__)
]
PAGE_S = 120
ERROR = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Entry|Notebook): .*", re.MULTILINE)
STYLE = re.compile(r'<style type="text/css">(.{1000,}?)</style>', re.DOTALL)
ELSEWHERE = re.compile(r'<a href="(?!#|[A-Za-z][\w+.-]*:)[^"]*"[^>]*>(.*?)</a>', re.DOTALL)  # of a file beside it
LINK = re.compile(rf'<(?:link rel="stylesheet" href|script src)="(?:\.\./)+{SHARED}/([\w.-]+)">(?:</script>)?')


def feedback(course: Course, lesson: str) -> tuple[int, dict[str, str]]:
    """Generate all feedback with nbgrader, and a zip archive of it.

    Return the number of pages, and {student: reason} for those without one. In the archive, a page is in a folder named
    like the one its hand-in came in, by which a learning platform knows whose it is. A platform hands out each folder
    alone: a page in one that it named has in it what the others share.
    """
    app = course.nbgrader()
    app.update_config(Config({"HTMLExporter": {"template_file": "page.html.j2", "extra_template_basedirs": TEMPLATES}}))
    marked = [
        row.student.id
        for row in rows(course, lesson)
        if row.auto is not None and course.notebook("autograded", lesson, row.student.id).exists()
    ]
    shared = course.folder / "feedback" / SHARED
    write(shared / "formulas.js", formulas.script())

    def make(student):
        app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
        converter = GenerateFeedback(coursedir=app.coursedir, parent=app)
        converter.force = True
        converter.start()
        page = course.step("feedback", lesson, student) / f"{lesson}.html"
        write(page, _sharing(page.read_text(), shared))

    failed = {}

    def done(student, failure, log):
        if failure:
            failed[student] = f"{(ERROR.findall(log.read_text()) or [failure])[0]}; see {log}"
        return "no page" if failure else ""

    process_pool.each(course, app, f"feedback {lesson}", marked, make, done, PAGE_S)
    pages = [student for student in marked if student not in failed]
    _pack(course, lesson, pages, shared)
    return len(pages), failed


def _sharing(page, shared):
    """Move the page's styles to files of the shared folder, and lead to them and to MathJax from its head.

    Links to files that lie beside the lesson's notebook, such as other lessons, become plain text.
    """

    def moved(match):
        name = f"{hashlib.sha256(match[1].encode()).hexdigest()[:12]}.css"
        if not (shared / name).exists():
            write(shared / name, match[1])
        return f'<link rel="stylesheet" href="../../{SHARED}/{name}">'

    head, rest, body = page.partition("</head>")
    script = f'{formulas.POLICY}<script src="../../{SHARED}/formulas.js"></script>'
    return STYLE.sub(moved, head).replace("<!-- shared -->", script, 1) + rest + ELSEWHERE.sub(r"\1", body)


def _pack(course, lesson, students, shared):
    """Write the zip archive of the pages."""
    names = {student: course.notes(lesson, student).came_as or student for student in students}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for student, name in names.items():
            page = (course.step("feedback", lesson, student) / f"{lesson}.html").read_text()
            if name != student:
                page = LINK.sub(lambda match: _inlined(shared / match[1]), page)
            archive.writestr(f"{name}/{lesson}.html", page.replace(f"../../{SHARED}/", f"../{SHARED}/"))
        for path in sorted(shared.iterdir()) if any(map(str.__eq__, names, names.values())) else ():
            archive.write(path, f"{SHARED}/{path.name}")
    write(course.folder / f"feedback-{lesson}.zip", packed.getvalue())


def _inlined(path: Path):
    text = path.read_text()
    return f"<style>{text}</style>" if path.suffix == ".css" else f"<script>{text}</script>"
