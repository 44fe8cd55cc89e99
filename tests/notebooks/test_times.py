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
MARK_SCHEME = re.compile(r"=== BEGIN MARK SCHEME ===.*?=== END MARK SCHEME ===", re.DOTALL)
SITTING = re.compile(r"^\| [^|]+ \| (\d+) to (\d+) \| (\d+) \|$", re.MULTILINE)


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


def sections(cells):
    """Return the minutes of each numbered section; 0 is what stands before the first."""
    taken, number = {0: 0.0}, 0
    for cell in cells:
        if "hints" in cell.metadata.get("tags", ()):
            continue  # most are never read
        if cell.cell_type == "markdown" and (heading := re.search(r"^## (\d+)\.", cell.source, re.MULTILINE)):
            number = int(heading[1])
        taken[number] = taken.get(number, 0.0) + minutes(cell)
    return taken


def parts(cells):
    """Return the minutes of each part, by its heading of the second or third level."""
    taken, heading = {}, ""
    for cell in cells:
        if "hints" in cell.metadata.get("tags", ()):
            continue
        if cell.cell_type == "markdown" and (found := re.findall(r"^###? (?!BEGIN|END).*", cell.source, re.MULTILINE)):
            heading = found[-1]
        taken[heading] = taken.get(heading, 0.0) + minutes(cell)
    return taken


@pytest.mark.parametrize(
    ("name", "minutes_said", "said_in_words", "longest"),
    [
        ("1.Gradient-Basics", 165, "two and three quarter hours", 13),
        ("2.System-Topology", 205, "three and a half hours", 15),
        ("3.Multi-GPU", 235, "four hours", 32),
    ],
)
def test_sittings_take_as_long_as_the_head_says_and_sections_are_short(name, minutes_said, said_in_words, longest):
    cells = jupytext.read(ROOT / f"grading/source/{name}/{name}.py", fmt="py:percent").cells
    taken = sections(cells)
    said = [tuple(map(int, row)) for cell in cells[:3] for row in SITTING.findall(cell.source)]
    assert [first for first, _, _ in said] == [1, *(last + 1 for _, last, _ in said[:-1])] and said[-1][1] == max(taken)
    for first, last, length in said:
        counted = sum(taken[number] for number in range(first, last + 1)) + (taken[0] if first == 1 else 0)
        assert counted == pytest.approx(length, rel=0.12), f"sections {first} to {last}"
        assert length <= 60
    assert sum(length for *_, length in said) == minutes_said and said_in_words in cells[0].source
    assert max(parts(cells).values()) <= longest, parts(cells)
    assert sum("**A resting place.**" in cell.source for cell in cells) == len(said) - 1
