"""A lesson's head says how long it takes, and its core is short: a clock counts what there is to read and to do.

The clock is that of somebody who knows Keras and is new to distributed training. Its paces come to 285 and 330 minutes
for the lessons 2 and 3 of release 0.3, as an estimate for such a reader did.
"""

import re
from collections import Counter
from dataclasses import dataclass

import jupytext
import pytest

import lessons
from helpers import ROOT

WORDS_A_MINUTE = 140
LINE, GUESS, LOOK, RUN = 0.15, 0.65, 1.3, 1.3  # minutes: of code, to be made, looked at, waited for
CODED, WRITTEN = 4, 3  # minutes a point
ONE_FILE = 20  # minutes at most: for a script that is judged in several parts
MARK_SCHEME = re.compile(r"=== BEGIN MARK SCHEME ===.*?=== END MARK SCHEME ===", re.DOTALL)
UNREAD = re.compile(rf"{MARK_SCHEME.pattern}|!\[[^\]]*\]\([^)]*\)", re.DOTALL)  # and what an image says in words
TIME = re.compile(r"^# \| time \| (\d+) minutes", re.MULTILINE)
MOST_MINUTES = {"5.Challenge": 45}  # of a core; of the others 60
MOST_WORDS, MOST_WORDS_A_LINE, LEAST_DONE = 2_200, 8, 2 / 3


@dataclass
class Clock:
    """What a lesson, or a part of it, asks for."""

    words: int = 0  # of text
    doing: float = 0.0  # minutes: answers, guesses, runs, and what is looked at
    setting_up: float = 0.0  # minutes: code that is only run

    @property
    def minutes(self) -> float:
        return self.words / WORDS_A_MINUTE + self.doing + self.setting_up


def doing(cell, tests) -> float:
    """The minutes that somebody spends on a code cell, or on a written answer; `tests` counts those of each question."""
    graded, source = cell.metadata.get("nbgrader", {}), MARK_SCHEME.sub("", cell.source)
    if graded.get("grade"):
        count = tests[graded["grade_id"][:3]]
        if cell.cell_type == "code" and count > 2:
            return min(ONE_FILE / count, graded["points"] * CODED)
        return graded["points"] * (CODED if cell.cell_type == "code" else WRITTEN)
    if graded.get("solution"):
        return 0
    shown = source.count("plot.") * LOOK + source.count("launch(") * RUN
    return LINE * len(source.splitlines()) + GUESS * source.startswith("guess_") + shown


def sections(source) -> dict[int, Clock]:
    """The clock of each numbered section of a lesson; 0 is what stands before the first."""
    found, number = {0: Clock()}, 0
    cells = jupytext.read(source, fmt="py:percent").cells
    tests = Counter(
        cell.metadata.nbgrader.grade_id[:3] for cell in cells if cell.metadata.get("nbgrader", {}).get("grade")
    )
    for cell in cells:
        if "hints" in cell.metadata.get("tags", ()):
            continue  # most are never read
        if cell.cell_type == "markdown" and (heading := re.findall(r"^## (\d+)\.", cell.source, re.MULTILINE)):
            number = int(heading[-1])
        part = found.setdefault(number, Clock())
        if cell.cell_type == "markdown" and not cell.metadata.get("nbgrader", {}).get("solution"):
            part.words += len(UNREAD.sub("", cell.source).split())
        elif number or cell.cell_type == "markdown":
            part.doing += doing(cell, tests)
        else:
            part.setting_up += doing(cell, tests)
    return found


def total(clocks) -> Clock:
    clocks = list(clocks)
    return Clock(*(sum(getattr(each, name) for each in clocks) for name in ("words", "doing", "setting_up")))


def lines_of_code(source) -> int:
    """The lines of code that somebody who is handed a lesson sees in it."""
    cells = lessons.release(lessons.master(source.read_text())).cells
    return sum(bool(line.strip()) for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines())


def stated(source) -> int:
    """The minutes that a lesson's head says."""
    return int(TIME.search(source.read_text())[1])


LESSONS = [source for source in lessons.sources(ROOT) if source.stem != lessons.HOME]
CORES = [source for source in LESSONS if lessons.is_core(source)]


@pytest.mark.parametrize("source", LESSONS, ids=lambda source: source.stem)
def test_a_head_says_how_long_its_lesson_takes(source):
    assert stated(source) == pytest.approx(total(sections(source).values()).minutes, rel=0.07)


@pytest.mark.parametrize("source", CORES, ids=lambda source: source.stem)
def test_a_core_is_short_and_most_of_it_is_doing(source):
    clock = total(sections(source).values())
    assert stated(source) <= MOST_MINUTES.get(source.stem, 60)
    assert clock.minutes <= MOST_MINUTES.get(source.stem, 60) * 1.02
    assert clock.words <= MOST_WORDS
    assert clock.words / lines_of_code(source) <= MOST_WORDS_A_LINE
    assert clock.doing / clock.minutes >= LEAST_DONE
