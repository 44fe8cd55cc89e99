"""Launch an answer that is a script, on several ranks, for the tests that judge it.

The ranks' processes are those of `ddl.rank.boxed`, started where no grade is decided: what they say is data for
`ddl.grader.judge`.

A request is ``{"do": "launch", "program": name, "file": name, "inputs": [text, ...]}``, with base64 text of an ``.npz``
file for each rank; programs are those of `ddl.rank.boxed`. The reply is what that answers, or ``{"missing": file}``,
``{"unwritten": file}`` or ``{"ended": why}``.
"""

import atexit
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import cache

from ddl.grader.channel import Ended, Late, WorkerProcess, start
from ddl.grader.limits import Limits
from ddl.grader.worker import respond

__all__ = ["Launches", "launch", "ranks_command", "start_ranks"]

START_S = 90.0  # to import TensorFlow on a busy machine
MARGIN_S = 20.0  # for a process that keeps the time limit of a launch itself
REPLY_BYTES = 32 * 2**20
STUB = "raise NotImplementedError()"  # nbgrader's, in the place of an answer


def launch(request: dict) -> dict:
    """Answer a request for an attendee's own script, in the working directory of their own notebook.

    When a submission is graded, the judge puts a question to the grader in this function's place.
    """
    script = respond({}, {"do": "read", "name": request["file"]})["text"]
    return _here().answer(request, script)


@cache
def _here():
    launches = Launches(start_ranks, Limits())
    atexit.register(launches.close)
    return launches


def ranks_command() -> list[str]:
    """Return the command of the process whose forks are ranks."""
    return [sys.executable, "-I", "-m", "ddl.rank.boxed"]


def start_ranks(limits: Limits, folder: str | None = None) -> WorkerProcess:
    """Start that process without a sandbox, for attendees' own code on their own machines."""
    env = os.environ | {"DDL_VIEW": "plain"}
    return WorkerProcess(start(ranks_command(), cwd=folder, env=env))


class Launches:
    """Launches scripts, each once: several tests look at the same launch."""

    def __init__(self, start_ranks: Callable[[Limits], WorkerProcess], limits: Limits):
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
            self._process = None

    def _launched(self, request):
        try:
            if self._process is None:
                self._process = self._start(self._limits)
                self._process.ask({"do": "start", "limits": asdict(self._limits)}, START_S, 2**16)
            reply = self._process.ask(request, self._limits.launch_s + MARGIN_S, REPLY_BYTES)
        except Late:
            self.close()
            return {"ended": f"nothing came back within {self._limits.launch_s:g} s"}
        except Ended as error:
            self.close()
            return {"ended": str(error)}
        return reply | {"seconds": self._limits.launch_s}
