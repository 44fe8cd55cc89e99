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
SITTING = re.compile(r"^# \| [^|]+ \| (\d+)(?: to (\d+))? \| (\d+) \|$", re.MULTILINE)
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


@pytest.mark.parametrize("source", sorted(set(LESSONS) - set(CORES)), ids=lambda source: source.stem)
def test_sittings_of_a_long_notebook_take_as_long_as_its_head_says(source):
    taken, text = sections(source), source.read_text()
    sittings = [(int(first), int(last or first), int(length)) for first, last, length in SITTING.findall(text[:4000])]
    if not sittings:
        assert stated(source) <= 60
        return
    assert [first for first, *_ in sittings] == [1, *(last + 1 for _, last, _ in sittings[:-1])]
    assert sittings[-1][1] == max(taken)
    for first, last, length in sittings:
        parts = range(0 if first == 1 else first, last + 1)
        assert total(taken[number] for number in parts).minutes == pytest.approx(length, rel=0.12), (first, last)
        assert length <= 60
    assert text.count("**A good place to stop.**") == len(sittings) - 1


# ---------------------------------------------------------------- the page for instructors

TEACHING = (ROOT / "docs" / "instructors.md").read_text()
ROW = re.compile(r"^\| (\d[a-z]?\. [^|]+) \| (\d+) \|", re.MULTILINE)
SLOT = re.compile(r"^\| (\d+):(\d\d) \| ?(\d*) \| ([^|]+) \|$", re.MULTILINE)


def test_the_page_for_instructors_gives_each_lesson_the_minutes_of_its_head():
    assert ROW.findall(TEACHING) == [(lessons.title(source), str(stated(source))) for source in LESSONS]


def test_timetables_follow_on_and_give_each_lesson_its_time():
    slots = SLOT.findall(TEACHING)
    begin = [60 * int(hour) + int(minute) for hour, minute, *_ in slots]
    for (*_, length, what), start, after in zip(slots, begin, begin[1:], strict=False):
        assert not length or start + int(length) == after, what
    assert [what for *_, length, what in slots if not length] == ["end", "end"]
    length_of = {source.stem[0]: stated(source) for source in CORES}
    taught = [(lesson, int(length)) for *_, length, what in slots for lesson in re.findall(r"^lesson (\d)", what)]
    assert {lesson for lesson, _ in taught} == set(length_of)
    for lesson, length in taught:
        assert length_of[lesson] <= length <= length_of[lesson] + 5, lesson
