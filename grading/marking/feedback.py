"""Feedback for students: a page for each, which needs no other file."""

import io
import tempfile
import zipfile
from pathlib import Path

import nbgrader.server_extensions.formgrader
from jinja2 import ChoiceLoader, DictLoader, FileSystemBytecodeCache
from nbconvert.exporters import HTMLExporter
from nbgrader.converters import GenerateFeedback
from traitlets.config import Config

from marking import formulas, process_pool
from marking.autograde import rows
from marking.course import Course, write

TEMPLATES = [
    str(Path(module).with_name("templates")) for module in (__file__, nbgrader.server_extensions.formgrader.__file__)
]
PAGE_S = 120


class Exporter(HTMLExporter):
    """nbconvert's, whose templates are compiled once for all processes, which takes two thirds of a page's time."""

    compiled = None

    def _create_environment(self):
        environment = super()._create_environment()
        environment.bytecode_cache = self.compiled
        place = DictLoader({Path(formulas.TEMPLATE).name: formulas.macro(formulas.PLACE)})
        environment.loader = ChoiceLoader([place, environment.loader])
        return environment


def feedback(course: Course, lesson: str) -> tuple[int, dict[str, str]]:
    """Generate all feedback with nbgrader, and a zip archive of it.

    Return the number of pages, and {student: reason} for those without one. In the archive, a page is in a folder named
    like the folder of its hand-in, by which a learning platform knows whose it is.
    """
    app = course.nbgrader()
    app.update_config(Config({"HTMLExporter": {"template_file": "page.html.j2", "extra_template_basedirs": TEMPLATES}}))
    marked = [
        row.student.id
        for row in rows(course, lesson)
        if row.auto is not None and course.notebook("autograded", lesson, row.student.id).exists()
    ]
    failed, packed = {}, io.BytesIO()

    def make(student):
        app.coursedir.assignment_id, app.coursedir.student_id = lesson, student
        converter = GenerateFeedback(coursedir=app.coursedir, parent=app)
        converter.force, converter.exporter_class = True, Exporter
        converter.start()
        page = course.step("feedback", lesson, student) / f"{lesson}.html"
        page.write_text(formulas.drawn(page.read_text()))

    with (
        tempfile.TemporaryDirectory() as folder,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        Exporter.compiled = FileSystemBytecodeCache(folder)

        def done(student, failure, log):
            if failure:
                failed[student] = f"{failure}; see {log}"
                return "no page"
            name = course.notes(lesson, student).came_as or student
            archive.write(course.step("feedback", lesson, student) / f"{lesson}.html", f"{name}/{lesson}.html")
            return ""

        process_pool.each(course, f"feedback {lesson}", marked, make, done, PAGE_S)
    write(course.folder / f"feedback-{lesson}.zip", packed.getvalue())
    return len(marked) - len(failed), failed
