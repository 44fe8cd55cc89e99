"""Benchmark of collecting, marking and feedback for a class.

    python benchmarks/marking.py [--lesson 1] [--students 65] [--repeats 1]

Each student has answered three of four questions with the author's answers and left the others unanswered; every
twentieth has an endless loop in one. The benchmark uses all cores available to this process.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

import nbformat

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import lessons
from course.lab.notebooks import beginning

PATHS = os.pathsep.join([str(ROOT / "grading"), str(ROOT / "tools")])
MARKS = re.compile(r"(?m)^.*(BEGIN|END) SOLUTION.*\n?")


def hand_in(solved, number):
    notebook, choice = lessons.release(solved), Random(number)
    answers = [
        (cell, MARKS.sub("", right.source))
        for cell, right in zip(notebook.cells, solved.cells, strict=True)
        if cell.metadata.get("nbgrader", {}).get("solution")
    ]
    for cell, right in answers:
        if choice.random() < 0.75:
            cell.source = right
    if number % 20 == 7:
        next(cell for cell, _ in answers if cell.cell_type == "code").source = "while True:\n    pass"
    return notebook


def measure(lesson, students):
    """Return each command's wall-clock and processor seconds for one class."""
    (source,) = (ROOT / "lessons").glob(f"{beginning(lesson)}*.py")
    solved, seconds = lessons.master(source.read_text()), {}
    with tempfile.TemporaryDirectory() as folder:
        people, class_ = Path(folder, "students.csv"), Path(folder, "class")
        class_.mkdir()
        people.write_text("id\n" + "".join(f"s{n}\n" for n in range(students)))
        for n in range(students):
            nbformat.write(hand_in(solved, n), class_ / f"s{n}.ipynb")
        for command, *more in (
            ("release", "--students", people),
            ("collect", "--from", class_),
            ("autograde",),
            ("feedback",),
        ):
            begun, before = time.monotonic(), processors()
            line = [sys.executable, "-m", "marking", "--course", Path(folder, "course"), command, lesson]
            subprocess.run([*line, *more], env=os.environ | {"PYTHONPATH": PATHS}, check=True, stdout=sys.stderr)
            seconds[command] = (time.monotonic() - begun, processors() - before)
    return seconds


def processors():
    """Return the processor seconds of this process's children."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lesson", default="1")
    parser.add_argument("--students", type=int, default=65)
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    found = [measure(given.lesson, given.students) for _ in range(given.repeats)]
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{given.students} students, lesson {given.lesson}, {cores} cores, load {load:.1f} at the end")
    for command in found[0]:
        pairs = (seconds[command] for seconds in found)
        print(f"{command:<10}" + "".join(f"{clock:8.1f} s ({worked:.1f} of processors)" for clock, worked in pairs))
