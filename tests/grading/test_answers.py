"""Marking of edited notebooks; the order of cells is in test_agreement.py."""

import base64
import json

import nbformat

from marking import answers
from marking.answers import NO_SPACE

PICTURE = base64.b64encode(b"\x89PNG").decode()


def answered(tiny, notebook):
    made, notes = answers.answered(tiny.released, answers.cells(nbformat.writes(notebook).encode()))
    nbformat.validate(made)
    return made, " ".join(notes)


def copied(cell, source):
    """A second cell with all that is written down about one, as JupyterLab makes it."""
    second = nbformat.from_dict(json.loads(json.dumps(cell)))
    second.source, second.id = source, f"{cell.id}-copy"
    return second


def test_answers_are_put_into_the_released_lesson(tiny):
    without_ids = json.loads(nbformat.writes(tiny.right()))
    for cell in without_ids["cells"]:
        del cell["id"]
    # In the course's own notebook, pictures lie in another folder than those that are handed out with the lesson.
    release = tiny.untouched()
    release.cells[0].source = release.cells[0].source.replace("../images/", "images/")
    for content in (nbformat.writes(tiny.right()), json.dumps(without_ids)):
        made, notes = answers.answered(release, answers.cells(content.encode()))
        assert notes == [] and made.cells[0] == release.cells[0]
        for cell, handed_out, right in zip(made.cells[1:], release.cells[1:], tiny.right().cells[1:], strict=True):
            assert cell.metadata == handed_out.metadata
            assert cell.source.strip() == right.source.strip()


def test_test_cells_are_put_back(tiny):
    notebook = tiny.right()
    tiny.answer(notebook, "q01_mean_test").source = "pass"
    tiny.answer(notebook, "q02_table_test").metadata.nbgrader.points = 100
    notebook.cells.remove(tiny.answer(notebook, "q04_double_test"))
    notebook.cells.insert(0, notebook.cells.pop())  # and another one stands elsewhere
    notebook.cells.append(copied(tiny.answer(notebook, "q02_table_test"), "pass"))
    made, notes = answered(tiny, notebook)
    assert "changed: q01_mean_test" in notes and "deleted: q04_double_test" in notes
    assert "of which the first counts: q02_table_test" in notes
    for name in tiny.tests:
        assert tiny.answer(made, name) == tiny.answer(tiny.released, name)
    assert not any("pass" in cell.source for cell in made.cells)


def test_markdown_answer_cannot_run_code(tiny):
    notebook = tiny.right()
    answer = tiny.answer(notebook, "q03_why")
    answer.source = "if 1 < 2 <script>alert(1)</script> <!-- x -->"
    answer.attachments = {
        "a.png": {"image/png": PICTURE, "text/html": "PHNjcmlwdD4="},
        "b": {'image/png" onerror="alert(1)': PICTURE},
    }
    made, _ = answered(tiny, notebook)
    made = tiny.answer(made, "q03_why")
    assert not any(text in made.source for text in ("<script", "</script", "<!--"))
    assert made.source.startswith("if 1 < 2 ") and made.attachments == {"a.png": {"image/png": PICTURE}}


ACTIVE = [
    "$\\href{javascri\npt:x}{a}$", "$\\href{java\tscript:x}{a}$", "[a](java\n script :x)",
    "[a](d\ta\tta:text/html,x)", "![](http://x.org/a.png)", "![a][p]", "![a\nb](//x.org/a.png)",
    "![](attachments/../../x)", "$\\href{javascript&#58;x}{a}$",
]  # fmt: skip
PASSIVE = [
    "![mine](attachment:a.png)", "![](../images/ring.svg) [x](https://x.org) **!** `a[0]`",
    "a description: of data, and a script",
]  # fmt: skip


def test_links_and_pictures_in_answers_are_harmless():
    made = [answers.harmless(source) for source in ACTIVE]
    assert not set(made) & set(ACTIVE) and [text.replace(NO_SPACE, "") for text in made] == ACTIVE
    assert [answers.harmless(source) for source in PASSIVE] == PASSIVE
