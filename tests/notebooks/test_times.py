"""A lesson's head says how long it takes: a clock counts what there is to read, to guess, to look at and to answer.

Its paces are those with which it comes to the times that an expert took for lessons 1 and 3: 140 and 180 minutes.
"""

import re

import jupytext
import pytest

from helpers import ROOT

WORDS_A_MINUTE = 150
LINE, GUESS, PICTURE, RUN = 0.1, 0.65, 1.3, 1.3  # minutes: of code, to be made, looked at, waited for
CODED, WRITTEN = 2.6, 2.0  # minutes a point
ONE_EXERCISE = "### Written by you, judged by what its ranks do"  # nine points for one file: no part of it stands alone
MARK_SCHEME = re.compile(r"=== BEGIN MARK SCHEME ===.*?=== END MARK SCHEME ===", re.DOTALL)
PARTS = r"^###? (?!BEGIN|END).*"
SITTING = re.compile(r"^\| [^|]+ \| (\d+)(?: to (\d+))? \| (\d+) \|$", re.MULTILINE)


def minutes(cell):
    """Return the minutes that a cell takes."""
    graded, source = cell.metadata.get("nbgrader", {}), MARK_SCHEME.sub("", cell.source)
    if graded.get("grade"):
        return graded["points"] * (CODED if cell.cell_type == "code" else WRITTEN)
    if graded.get("solution"):
        return 0
    if cell.cell_type == "markdown":
        return len(source.split()) / WORDS_A_MINUTE
    looks, runs = source.count("plot."), source.count("launch(")
    return LINE * len(source.splitlines()) + GUESS * source.startswith("guess_") + PICTURE * looks + RUN * runs


def taken_by(cells, heading, first=""):
    """Return the minutes of each part, by the last match of its heading; `first` is what stands before."""
    taken, part = {first: 0.0}, first
    for cell in cells:
        if "hints" in cell.metadata.get("tags", ()):
            continue  # most are never read
        if cell.cell_type == "markdown" and (found := re.findall(heading, cell.source, re.MULTILINE)):
            part = found[-1]
        taken[part] = taken.get(part, 0.0) + minutes(cell)
    return taken


def sections(cells):
    """Return the minutes of each numbered section; 0 is what stands before the first."""
    return {int(number): taken for number, taken in taken_by(cells, r"^## (\d+)\.", first="0").items()}


def cells_of(name):
    return jupytext.read(ROOT / f"grading/source/{name}/{name}.py", fmt="py:percent").cells


HEADS = {
    "1.Gradient-Basics": ("two and three quarter hours", 165),
    "2.System-Topology": ("three and a half hours", 205),
    "3.Multi-GPU": ("four hours", 240),
    "4.Convergence": ("three hours with the exercises", 180),
    "5.Challenge": ("an hour and three quarters", 105),
}


@pytest.mark.parametrize("name", list(HEADS)[:3])
def test_sittings_take_as_long_as_the_head_says_and_sections_are_short(name):
    cells = cells_of(name)
    taken = sections(cells)
    rows = [row for cell in cells[:3] for row in SITTING.findall(cell.source)]
    sittings = [(int(first), int(last or first), int(length)) for first, last, length in rows]
    assert [first for first, *_ in sittings] == [1, *(last + 1 for _, last, _ in sittings[:-1])]
    assert sittings[-1][1] == max(taken)
    for first, last, length in sittings:
        counted = sum(taken[number] for number in range(first, last + 1)) + (taken[0] if first == 1 else 0)
        assert counted == pytest.approx(length, rel=0.12), f"sections {first} to {last}"
        assert length <= 60
    parts = {heading: took for heading, took in taken_by(cells, PARTS).items() if heading != ONE_EXERCISE}
    assert max(parts.values()) <= 15, parts
    assert sum("**A good place to stop.**" in cell.source for cell in cells) == len(sittings) - 1


# ---------------------------------------------------------------- the page for instructors

TEACHING = (ROOT / "docs" / "instructors.md").read_text()
LESSON = re.compile(r"^\| (\d\. [^|]+) \| (\d+) \|", re.MULTILINE)
SLOT = re.compile(r"^\| (\d+):(\d\d) \| ?(\d*) \| ([^|]+) \|$", re.MULTILINE)
PART = re.compile(r"lesson (\d), sections (\d+) to (\d+)")
LESSONS = {name[0]: name for name in HEADS}


def test_each_lesson_takes_as_long_as_its_head_and_the_page_for_instructors_say():
    stated = dict(LESSON.findall(TEACHING))
    assert {title[0] for title in stated} == set(LESSONS)
    for title, length in stated.items():
        name = LESSONS[title[0]]
        words, minutes = HEADS[name]
        cells = cells_of(name)
        head, counted = "".join(cell.source for cell in cells[:3]), sum(sections(cells).values())
        assert f"# {title}\n" in head and words in head
        assert counted == pytest.approx(minutes, rel=0.05), title
        assert counted == pytest.approx(int(length), rel=0.03), title


def test_timetables_follow_on_and_give_each_part_its_time():
    slots = SLOT.findall(TEACHING)
    begin = [60 * int(hour) + int(minute) for hour, minute, *_ in slots]
    for (*_, length, what), start, after in zip(slots, begin, begin[1:], strict=False):
        assert not length or start + int(length) == after, what
    assert [what for *_, length, what in slots if not length] == ["end", "end"]
    taught = {}
    for *_, length, what in slots:
        for lesson, first, last in PART.findall(what):
            part = range(int(first), int(last) + 1)
            taken = sections(cells_of(LESSONS[lesson]))
            counted = sum(taken[number] for number in part) + (taken[0] if 1 in part else 0)
            assert counted == pytest.approx(int(length), rel=0.12), what
            taught.setdefault(lesson, []).extend(part)
    for lesson, parts in taught.items():
        assert parts == [number for number in sections(cells_of(LESSONS[lesson])) if number], lesson
