"""Marks and comments that a person gave to an answer which has been handed in anew since."""

import nbformat
from nbgrader import utils
from nbgrader.api import MissingEntry

from marking.course import Course, write

__all__ = ["set_aside"]


def set_aside(course: Course, lesson: str, student: str) -> None:
    """Take marks and comments out of the gradebook whose answers are not those that they are for.

    They are kept, with the answer that they were given for, in ``aside/``; the notes say so. Where the answer is as it
    was, they stay.
    """
    submitted = course.notebook("submitted", lesson, student)
    marked = course.notebook("marked", lesson, student)  # the hand-in that was marked last
    now = _answers(submitted)
    # Without one, of a course that was marked before such copies were kept, nothing has changed.
    before = _answers(marked) if marked.exists() else now
    changed = {name for name in before | now if before.get(name) != now.get(name)} if now else set()
    with course.gradebook() as gradebook:
        kept = _taken(gradebook, lesson, student, changed)
        if kept:
            path = course.folder / "aside" / lesson / f"{student}.txt"
            earlier = path.read_text() if path.exists() else ""
            write(
                path,
                earlier
                + "".join(f"{name}: {said}\n\n{_indented(before.get(name, ''))}\n\n" for name, said in kept.items()),
            )
            notes = course.notes(lesson, student)
            notes.aside.update(
                {
                    name: f"{name} was answered anew: {said} for the earlier answer, kept in {path}, "
                    "waits to be given again"
                    for name, said in kept.items()
                }
            )
            course.note(lesson, student, notes)
            gradebook.db.commit()
    write(marked, submitted.read_bytes())


def _answers(path):
    """The text that each graded or answered cell of a notebook is about, by `grade_id`.

    For a test cell these are the code cells since the test before it.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
    except Exception:  # nbformat has no common type; marking it will say what is wrong
        return {}
    found, code = {}, []
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        source = "\n".join(line.rstrip() for line in cell.source.strip().splitlines())
        source += "".join(sorted(map(str, cell.get("attachments", {}).values())))
        if utils.is_grade(cell) and not utils.is_solution(cell):
            found[name], code = "\n\n".join(code), []
        elif utils.is_solution(cell):
            found[name] = source
        if cell.cell_type == "code" and not utils.is_grade(cell):
            code.append(source)
    return found


def _taken(gradebook, lesson, student, names):
    """Take marks and comments off; return what they were. It is for the caller to commit."""
    try:
        submission = gradebook.find_submission(lesson, student)
    except MissingEntry:
        return {}
    kept: dict[str, list[str]] = {}
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            if grade.name in names and grade.manual_score is not None:
                kept.setdefault(grade.name, []).append(_points(grade.manual_score))
                grade.manual_score = None
            if grade.name in names and grade.extra_credit:
                kept.setdefault(grade.name, []).append(f"{_points(grade.extra_credit)} more")
                grade.extra_credit = None
        for comment in notebook.comments:
            if comment.name in names and comment.manual_comment:
                kept.setdefault(comment.name, []).append(f"the comment “{comment.manual_comment}”")
                comment.manual_comment = None
    return {name: " and ".join(said) for name, said in kept.items()}


def _indented(text):
    return "\n".join(f"    {line}" for line in text.splitlines())


def _points(number):
    return f"{number:g} point" + ("" if number == 1 else "s")
