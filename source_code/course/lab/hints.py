"""Hints for a lesson's questions, in steps: a nudge, the idea, the first line."""

import base64
import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from course.grader.cells import labels
from course.lab.attendee import hints_taken, take_hint
from course.lab.notebooks import FRESH, find_notebook, notebook_of_kernel, the_one, this_notebook
from ddl.display.html import prose

FILE = Path(__file__).with_name("hints.json")  # built from the lessons' sources, and encoded
EMPHASIS = re.compile(r"(?<![\w*])\*(\S(?:[^*]*\S)?)\*(?![\w*])")
_asked = set()  # questions with hints in this process


@dataclass(frozen=True)
class Hint:
    """The hints taken for a question: paragraphs in a notebook, lines in a terminal."""

    question: str
    steps: tuple[str, ...]  # those taken
    most: int  # total number

    def __repr__(self):
        steps = (f"{number}. {text}" for number, text in enumerate(self.steps, start=1))
        return "\n".join([f"{self._head()}:", *steps, self._then()])

    def _repr_html_(self):
        steps = "".join(f"<li>{emphasized(text)}</li>" for text in self.steps)
        return f'<div role="status"><b>{escape(self._head())}</b><ol>{steps}</ol><p>{escape(self._then())}</p></div>'

    def _head(self):
        return f"{labels([self.question])[self.question].capitalize()}, hint {len(self.steps)} of {self.most}"

    def _then(self):
        if len(self.steps) == self.most:
            return "These are all. Only you see how many you took."
        return f"To see the next one, ask again. Only you see how many of the {self.most} you took."


def emphasized(text):
    return EMPHASIS.sub(r"<em>\1</em>", prose(text))


def hint(question: str, lesson: str | None = None) -> Hint:
    """Return the next hint for a question, with the previous ones.

    `question` is a question's id or its first characters, such as ``"q03"``; `lesson` is a lesson's name or its first
    characters, by default the notebook that calls this. A restarted kernel first shows the hints taken before, so
    rerunning all cells takes no new ones. Raises NotFound unless exactly one question with hints matches.
    """
    name = (find_notebook(lesson) if lesson else notebook_of_kernel() or this_notebook()).stem.removesuffix(FRESH)
    steps = steps_of(name)
    question = the_one(f"question with hints in {name}", str(question), list(steps))
    texts = steps[question]
    before = 0 if lesson or (name, question) in _asked else hints_taken(name).get(question, 0)
    _asked.add((name, question))
    return Hint(question, tuple(texts[: before or take_hint(name, question, len(texts))]), len(texts))


def steps_of(lesson: str) -> dict[str, list[str]]:
    """Return the hints of a lesson by question, in order."""
    return {
        question: json.loads(base64.b64decode(text))
        for question, text in json.loads(FILE.read_text()).get(lesson, {}).items()
    }
