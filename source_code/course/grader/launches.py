"""Launch an answer that is a script, on several ranks, for the tests that judge it.

The ranks' processes are those of `course.grader.ranks`, started where no grade is decided: what they say is data for
`course.grader.judge`.

A request is ``{"do": "launch", "program": name, "file": name, "inputs": [input, ...]}``; programs are those of
`course.grader.ranks`. A rank's input is ``{"given": anything, "samples": [sample, ...]}``, handed out on request. The
reply is what `course.grader.ranks` answers, with ``notes``, or ``{"missing": file}``, ``{"unwritten": file}`` or
``{"ended": why}``. Each rank's notes are, in order, ``{"read": numbers}`` for samples that it was handed, and
``{"note": event}`` for what it says itself.
"""

import atexit
import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache

from course.grader.cells import STUB
from course.grader.channel import Channel, Ended, Late
from course.grader.limits import Limits
from course.grader.worker import respond

START_S = 90.0  # to import TensorFlow on a busy machine
MARGIN_S = 20.0  # for a process that keeps the time limit of a launch itself
REPLY_BYTES = 2**21
NOTES_CHARACTERS = 32 * 2**20  # of a launch


def launch(request: dict) -> dict:
    """Answer a request for an attendee's own script, in the working directory of their own notebook.

    When a notebook is graded, the judge puts a question to the grader in this function's place.
    """
    script = respond({}, {"do": "read", "name": request["file"]})["text"]
    return launches_here().answer(request, script)


@cache
def launches_here() -> "Launches":
    """Return this process's own, for attendees' own scripts: without a sandbox, and kept until the process ends."""
    launches = Launches(start_ranks, Limits())
    atexit.register(launches.close)
    return launches


def ranks_command() -> list[str]:
    # a process whose forks are ranks
    return [sys.executable, "-I", "-m", "course.grader.ranks"]


def start_ranks(limits: Limits, folder: str | None = None) -> Channel:
    """Start that process without a sandbox, for attendees' own code on their own machines."""
    env = os.environ | {"DDL_VIEW": "plain"}
    return Channel(ranks_command(), cwd=folder, env=env)


class Launches:
    """Launches scripts, each once: several tests look at the same launch."""

    def __init__(self, start_ranks: Callable[[Limits], Channel], limits: Limits):
        self._start, self._limits = start_ranks, limits
        self._process = None
        self._known = {}

    def answer(self, request: dict, script: str | None) -> dict:
        """Return the reply to a request whose file has the text `script`, or is not there."""
        if not isinstance(script, str):
            return {"missing": request["file"]}
        if STUB in script.splitlines():
            return {"unwritten": request["file"]}
        key = json.dumps([request, script])
        if key not in self._known:
            self._known[key] = self._launched(request | {"script": script, "seconds": self._limits.launch_s})
        return self._known[key]

    def close(self):
        if self._process is not None:
            self._process.kill()

    def _launched(self, request):
        try:
            if self._process is None or self._process.ended:
                self._process = self._start(self._limits)
                self._process.ask({"do": "start", "limits": asdict(self._limits)}, START_S, 2**16)
            desk = _Desk(request.pop("inputs"))
            seconds = self._limits.launch_s + MARGIN_S
            reply = self._process.ask(request | {"size": len(desk.notes)}, seconds, REPLY_BYTES, desk.serve)
        except Late:
            return {"ended": f"nothing came back within {self._limits.launch_s:g} s"}
        except Ended as error:
            return {"ended": str(error)}
        return reply | {"seconds": self._limits.launch_s, "notes": desk.notes}


class _Desk:
    """Hands out each rank's input, and notes who asked for what."""

    def __init__(self, inputs):
        self._inputs = inputs
        self._left = NOTES_CHARACTERS
        self.notes = [[] for _ in inputs]

    def serve(self, message):
        """Reply to ``{"rank": rank, "message": text}`` from a rank that is trusted in nothing."""
        given, notes = self._inputs[message["rank"]], self.notes[message["rank"]]
        self._left -= len(message["message"])
        if self._left < 0:
            raise Ended(f"its ranks noted more than {NOTES_CHARACTERS:,} characters")
        value = None
        with contextlib.suppress(ValueError, RecursionError, TypeError, IndexError):
            match json.loads(message["message"]):
                case {"do": "begin"}:
                    value = given["given"]
                case {"do": "read", "numbers": list(numbers)}:
                    value = [given["samples"][number] for number in numbers]
                    notes.append({"read": numbers})
                case {"do": "note", "note": dict(note)}:
                    notes.append({"note": note})
        return {"value": value}
