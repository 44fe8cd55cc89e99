"""Estimate of the time that lessons take: `make clock LESSON=1`, or all lessons.

The estimate is for readers who know Keras and are new to distributed training. State the minutes at the top of the
lesson, rounded to five. A test holds a lesson to its limits.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass

import jupytext

import lessons

WORDS_A_MINUTE = 140
LINE, GUESS, LOOK, RUN = 0.15, 0.65, 1.3, 1.3  # minutes: of code, to be made, looked at, waited for
CODED, WRITTEN = 4, 3  # minutes a point
ONE_FILE = 20  # maximal minutes, for a script with several checks
MARK_SCHEME = re.compile(r"=== BEGIN MARK SCHEME ===.*?=== END MARK SCHEME ===", re.DOTALL)
UNREAD = re.compile(rf"{MARK_SCHEME.pattern}|!\[[^\]]*\]\([^)]*\)", re.DOTALL)  # and images' text alternatives
TIME = re.compile(r"^# \| time \| (\d+) minutes", re.MULTILINE)
CORE, SECOND = (75, 9), (125, 13)  # at most: minutes, and words a line of code
DOING = 2 / 3  # at least, of the minutes
STATED = 0.2  # at most this share more or less than the clock says


@dataclass
class Clock:
    """Time required by a lesson or a part of it."""

    words: int = 0  # of text
    doing: float = 0.0  # minutes: answers, guesses, runs, and what is looked at
    setting_up: float = 0.0  # minutes: code that is only run

    @property
    def minutes(self) -> float:
        return self.words / WORDS_A_MINUTE + self.doing + self.setting_up


def doing(cell, tests) -> float:
    """Return the minutes for a code cell or written answer; `tests` is the number of tests per question."""
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
    """Return the time of each numbered section of a lesson; 0 is the part before the first."""
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
    """Return the lines of code visible in a released lesson."""
    cells = lessons.release(lessons.master(source.read_text())).cells
    return sum(bool(line.strip()) for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines())


def stated(source) -> int:
    """Return the minutes stated at the top of a lesson."""
    return int(TIME.search(source.read_text())[1])


def beyond(source) -> list[str]:
    """Return what about a lesson is beyond its limits."""
    clock, (minutes, words) = total(sections(source).values()), CORE if lessons.is_core(source) else SECOND
    per_line, said = clock.words / lines_of_code(source), stated(source)
    problems = {
        f"{clock.minutes:.0f} minutes by the clock: at most {minutes}": clock.minutes > minutes,
        f"{per_line:.1f} words a line of code: at most {words}": per_line > words,
        f"{clock.doing / clock.minutes:.0%} doing: at least {DOING:.0%}": clock.doing / clock.minutes < DOING,
        f"says {said} minutes, and the clock {clock.minutes:.0f}": abs(said / clock.minutes - 1) > STATED,
    }
    return [problem for problem, is_there in problems.items() if is_there]


def main(names: list[str]) -> None:
    print(f"{'lesson':24}{'stated':>8}{'clock':>8}{'left':>8}{'words':>8}{'per line of code':>18}{'doing':>8}")
    sources = [source for source in lessons.sources(lessons.ROOT) if source.stem != lessons.HOME]
    for source in lessons.begins_so(names[0], sources) if names else sources:
        clock = total(sections(source).values())
        left = (CORE if lessons.is_core(source) else SECOND)[0] - clock.minutes
        per_line = clock.words / lines_of_code(source)
        print(
            f"{source.stem:24}{stated(source):8}{clock.minutes:8.0f}{left:8.0f}{clock.words:8,}{per_line:18.1f}"
            f"{clock.doing / clock.minutes:8.0%}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
