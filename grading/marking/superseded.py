"""Marks and comments for answers that have been handed in anew since."""

from collections import defaultdict

import nbformat
from nbgrader import utils
from nbgrader.api import MissingEntry

from marking.course import Course, write


def set_aside(course: Course, lesson: str, student: str) -> None:
    """Remove marks and comments for changed answers from the gradebook.

    They are kept in ``aside/`` with the earlier answer, and the notes say so. Those for unchanged answers stay.
    """
    submitted = course.notebook("submitted", lesson, student)
    marked = course.notebook("marked", lesson, student)  # the hand-in marked last
    now = _answers(submitted)
    before = _answers(marked) if marked.exists() else now
    changed = {name for name in before | now if before.get(name) != now.get(name)} if now else set()
    with course.gradebook() as gradebook:
        kept = _taken(gradebook, lesson, student, changed)
        if kept:
            path = course.folder / "aside" / lesson / f"{student}.txt"
            earlier = path.read_text() if path.exists() else ""
            entries = (f"{name}: {marks}\n\n{_indented(before.get(name, ''))}\n\n" for name, marks in kept.items())
            write(path, earlier + "".join(entries))
            notes = course.notes(lesson, student)
            for name, marks in kept.items():
                notes.aside[name] = (
                    f"{name} was answered anew: {marks} for the earlier answer, kept in {path}, waits to be given again"
                )
            course.note(lesson, student, notes)
            gradebook.db.commit()
    write(marked, submitted.read_bytes())


def _answers(path):
    """The answers of a notebook by `grade_id`; for a test cell, the code cells since the previous test."""
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
    """Remove marks and comments, for the caller to commit; return what they were."""
    try:
        submission = gradebook.find_submission(lesson, student)
    except MissingEntry:
        return {}
    kept = defaultdict(list)
    for notebook in submission.notebooks:
        for grade in notebook.grades:
            if grade.name in names and grade.manual_score is not None:
                kept[grade.name].append(_points(grade.manual_score))
                grade.manual_score = None
            if grade.name in names and grade.extra_credit:
                kept[grade.name].append(f"{_points(grade.extra_credit)} more")
                grade.extra_credit = None
        for comment in notebook.comments:
            if comment.name in names and comment.manual_comment:
                kept[comment.name].append(f"the comment “{comment.manual_comment}”")
                comment.manual_comment = None
    return {name: " and ".join(parts) for name, parts in kept.items()}


def _indented(text):
    return "\n".join(f"    {line}" for line in text.splitlines())


def _points(number):
    return f"{number:g} point" + ("" if number == 1 else "s")
