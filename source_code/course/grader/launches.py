"""Launches of an answer's file on several ranks, for tests of the ranks' reports.

A test calls `launched` with input files for the answer and gets each rank's report as plain arrays. The ranks run below
a process of `course.grader.launch_worker`, which marking starts in a sandbox.
"""

import atexit
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from course.grader.cells import STUB
from course.grader.limits import Limits
from course.grader.serialize import BoundaryError, decode, encode
from course.grader.worker import respond
from course.grader.worker_process import Channel, Ended, Late
from ddl.display.html import prose
from ddl.display.style import is_interactive

START_S = 90.0  # to import TensorFlow on a busy machine
MARGIN_S = 30.0  # margin for a process that enforces a launch's time limit
REPLY_BYTES = 2**22
MESSAGE = 300  # characters of a script's own error
LEFT_ALONE = ("HorovodInternalError", "UnknownError", "DistBackendError")  # raised if another rank is gone
CLOSED = "gloo/transport"  # in the message of torch.distributed's error then
SAME_CALLS = "do all ranks make the same collective calls?"


# ---------------------------------------------------------------- for tests


@dataclass(frozen=True)
class Rank:
    """A rank's reported arrays, and whether it wrote a checkpoint."""

    arrays: dict[str, np.ndarray]
    wrote: bool


def launched(file: str, ranks: int, files: dict[str, dict], *, program: str = "", args: Sequence = ()) -> list[Rank]:
    """Launch an answer's file and return each rank's report.

    Parameters
    ----------
    file
        The file that the answer has written.
    ranks
        How many processes to start.
    files
        Files for the ranks, in the folder above their own: {"data.npz": {name: array}}.
    program
        A module whose ``main(file)`` calls what the file defines; by default the file itself is run.
    args
        The file's command line.

    Raises
    ------
    AssertionError
        If the file does not exist, a rank fails or reports nothing, or the ranks do not end in time.
    """
    arguments = [str(each) for each in args]
    request = {"do": "launch", "file": file, "ranks": ranks, "program": program, "args": arguments}
    reply = launch(request | {"files": encode(files)})
    _explain_failure(reply, f"{file} on {ranks} ranks")
    return [_rank(found, f"{file} on {ranks} ranks, rank {k}") for k, found in enumerate(reply["ranks"])]


def require(right, sentence: str) -> None:
    """Raise AssertionError with a sentence unless `right` is true."""
    if not right:
        raise AssertionError(sentence)


def _rank(found, where):
    require(found.get("report"), f"{where} reported nothing: does it get to its call of `report`?")
    try:
        arrays = decode(found["report"])
        right = all(isinstance(each, np.ndarray) and each.dtype.kind in "biuf" for each in arrays.values())
    except (BoundaryError, AttributeError):
        right = False
    require(right, f"{where}: its report cannot be read")
    for name, array in arrays.items():
        require(np.isfinite(array).all(), f"{where}: `{name}` in its report is not finite")
    return Rank(arrays, found.get("wrote") is True)


def _explain_failure(reply, where):
    """Raise a one-sentence error about a failed launch."""
    require("missing" not in reply, f"there is no file {reply.get('missing')}: run the cell that writes it")
    require("unwritten" not in reply, f"{reply.get('unwritten')} is still to be written")
    require("ended" not in reply, f"{where}: {reply.get('ended')}")
    ranks = reply.get("ranks")
    require(isinstance(ranks, list) and all(isinstance(each, dict) for each in ranks), f"{where}: no reports")
    errors = {k: rank["error"] for k, rank in enumerate(ranks) if isinstance(rank.get("error"), dict)}
    alone = {k for k, error in errors.items() if error.get("type") in LEFT_ALONE or CLOSED in str(error.get("message"))}
    for k in sorted(errors.keys() - alone, key=lambda k: str(errors[k].get("time"))):
        message = " ".join(str(errors[k].get("message")).split())[:MESSAGE]
        raise AssertionError(
            f"{where}: rank {k} raised {str(errors[k].get('type'))[:100]}{_line(errors[k])}: {message}"
        )
    if reply.get("late"):
        states = ", ".join(
            f"rank {k} {'has ended' if rank.get('done') else 'is still running' + _line(rank)}"
            for k, rank in enumerate(ranks)
        )
        raise AssertionError(f"{where} did not end within {reply.get('seconds', 0):g} s ({states}): {SAME_CALLS}")
    for k in sorted(alone):
        raise AssertionError(f"{where}: rank {k} waited{_line(errors[k])} for a rank that had ended: {SAME_CALLS}")
    for k, rank in enumerate(ranks):
        require(rank.get("done"), f"{where}: the process of rank {k} ended before its script did")


def _line(about):
    return f" in line {about['line']}" if isinstance(about.get("line"), int) else ""


# ---------------------------------------------------------------- for the grader


def launch(request: dict) -> dict:
    """Answer a request for an attendee's file, in the working directory of their notebook.

    During grading, the judge replaces this function with a request to the grader.
    """
    script = respond({}, {"do": "read", "name": request["file"]})["text"]
    return launches_here().answer(request, script)


@cache
def launches_here() -> "Launches":
    """Return this process's `Launches` for attendees' own files: without a sandbox, kept until the process ends."""
    launches = Launches(start_launcher, Limits(), announced)
    atexit.register(launches.close)
    return launches


@contextlib.contextmanager
def announced(text: str) -> Iterator[None]:
    """Show a line in a person's notebook until the block ends."""
    if not is_interactive():
        yield
        return
    from IPython.display import HTML, display

    line = display(HTML(f'<p role="status">{prose(text)}</p>'), display_id=True)
    try:
        yield
    finally:
        line.update(HTML(""))


def launcher_command() -> list[str]:
    return [sys.executable, "-I", "-m", "course.grader.launch_worker"]


def start_launcher(limits: Limits) -> Channel:
    """Start a launching process without a sandbox, for attendees' own code on their own machines."""
    return Channel(launcher_command(), env=os.environ | {"DDL_VIEW": "plain"})


class Launches:
    """Launcher that launches each file once, because several tests use the same launch.

    `during` makes a context for each launch from a sentence about it.
    """

    def __init__(
        self,
        start: Callable[[Limits], Channel],
        limits: Limits,
        during: Callable[[str], contextlib.AbstractContextManager] = contextlib.nullcontext,
    ):
        self._start, self._limits, self._during = start, limits, during
        self._process = None
        self._known = {}

    def answer(self, request: dict, script: str | None) -> dict:
        """Return the reply to a request whose file has the text `script`, or None if the file is missing."""
        if not isinstance(script, str):
            return {"missing": request["file"]}
        if STUB in script.splitlines():
            return {"unwritten": request["file"]}
        key = json.dumps([request, script])
        if key not in self._known:
            text = f"{request['file']} is running on {request['ranks']} ranks. It takes some seconds to start them."
            with self._during(text):
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
            reply = self._process.ask(request, self._limits.launch_s + MARGIN_S, REPLY_BYTES)
        except Late:
            return {"ended": f"nothing came back within {self._limits.launch_s:g} s"}
        except Ended as error:
            return {"ended": str(error)}
        return reply | {"seconds": self._limits.launch_s}
