"""The process in which a submission's code runs: `python -m course.grader.worker`.

It runs cells as a notebook does, describes names and calls functions: see `respond`. Its answers are as untrusted as
the submission. The parent isolates it; limits that a process can set itself come with the first request.
"""

import builtins
import contextlib
import io
import itertools
import math
import os
import resource
import sys
import traceback
from collections.abc import Iterator

from course.grader.serialize import ITEMS, BoundaryError, decode, encode
from course.grader.worker_pipe import MessagePipe
from ddl.start.fast_exit import end_with_parent

GRADING = "DDL_GRADING"  # environment variable that is set during grading
MESSAGE_CHARACTERS = 2_000
FRAMES = 6  # the last ones of a traceback
FILES = 128
FILE_CHARACTERS = 100_000  # of a script to launch
# Saved before the submission runs, by their names, not their aliases.
ERRORS = {
    kind: kind.__name__
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, BaseException)
}


class CapturedText(io.TextIOBase):
    """Text stream that keeps only the beginning of its text."""

    def __init__(self, limit_bytes=0):
        self._limit_bytes = limit_bytes
        self._left = limit_bytes
        self._parts = []

    def writable(self):
        return True

    def write(self, text):
        """Keep what fits, but report all as written, or print() would raise."""
        if self._left > 0:
            kept = text[: self._left].encode("utf-8", "replace")[: self._left]
            self._left -= len(kept)
            self._parts.append(kept.decode("utf-8", "ignore"))
        return len(text)

    def text(self):
        """Return the kept text, with a note if it is truncated."""
        cut = f"\n… (cut after {self._limit_bytes:,} bytes)\n" if self._left <= 0 else ""
        return "".join(self._parts) + (cut if self._limit_bytes else "")


class Shell:
    """Shell that runs cells like a notebook's kernel, including magics."""

    def __init__(self):
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False  # it would open a database and start a thread
        config.InteractiveShell.colors = "nocolor"
        config.InteractiveShell.banner1 = ""
        self._shell = InteractiveShell.instance(config=config)
        # Errors are returned, not printed.
        for name in ("showtraceback", "showsyntaxerror", "showindentationerror"):
            setattr(self._shell, name, lambda *arguments, **options: None)
        self._shell.enable_gui = lambda gui=None: None  # for `%matplotlib`

    @property
    def names(self):
        return self._shell.user_ns

    def run(self, source, printed_bytes):
        """Run one cell; return its ``printed`` text and its ``error`` (see `error_of`) or None."""
        captured = CapturedText(printed_bytes)
        with contextlib.redirect_stdout(captured), contextlib.redirect_stderr(captured):
            result = self._shell.run_cell(source, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        return {"printed": captured.text(), "error": error and error_of(error)}


def respond(names: dict, request: dict):
    """Answer a request about the `names` that a submission has defined.

    ``{"do": "describe", "names": [...]}`` is answered by ``{"names": {name: ...}}``, each with ``function``, ``value``
    (text from `encode`), ``refused`` (why) or ``missing``; ``{"do": "call", "name": ..., "args": text, "kwargs":
    text}`` by ``value``, ``refused`` or ``raised`` (from `error_of`); ``{"do": "read", "name": ...}`` by the ``text``
    of a file that the submission has written.
    """
    if request["do"] == "read":
        return {"text": _text_of(request["name"])}
    if request["do"] == "describe":
        return {"names": {name: _described(names, name) for name in request["names"]}}
    try:
        args, kwargs = decode(request["args"]), decode(request["kwargs"])
        # Both in one `try`: a generator function's code runs while its result is encoded.
        return {"value": encode(names[request["name"]](*args, **kwargs))}
    except KeyboardInterrupt:
        raise
    except BoundaryError as error:
        return {"refused": _clean(error, MESSAGE_CHARACTERS)}
    except BaseException as error:  # including the function's SystemExit
        return {"raised": error_of(error)}


def error_of(error):
    """Return an exception's type, message, traceback, last line and its function, as text of bounded length.

    The traceback begins at the submission's code; ``bases`` are the built-in exceptions among the type and its
    ancestors, nearest first.
    """
    try:
        frames = traceback.extract_tb(error.__traceback__)
        in_cells = [number for number, frame in enumerate(frames) if _is_cell(frame.filename)]
        frames = frames[in_cells[0] :][-FRAMES:] if in_cells else []
        last = next((frame for frame in reversed(frames) if _is_cell(frame.filename)), None)
        line = last and f"line {last.lineno}: {last.line}"[:200]
        if isinstance(error, SyntaxError) and error.text:
            line = f"line {error.lineno}: {error.text.strip()}"[:200]
        bases = [ERRORS[kind] for kind in type.mro(type(error)) if kind in ERRORS]
        return {
            "type": _clean(type(error).__name__, 100),
            "line": _clean(line or "", 200),
            "function": _clean(last.name if last else "", 100),
            "bases": bases,
            "message": _message(error),
            "traceback": _clean("".join(traceback.format_list(frames)), 4 * MESSAGE_CHARACTERS),
        }
    except KeyboardInterrupt:
        raise
    except BaseException:  # an exception whose own methods raise
        return {"type": "Exception", "bases": [], "line": "", "function": "", "message": "", "traceback": ""}


def _text_of(name):
    try:
        with open(name, encoding="utf-8") as file:
            return file.read(FILE_CHARACTERS)
    except (OSError, ValueError):
        return None


def _message(error):
    try:
        return _clean(str(error), MESSAGE_CHARACTERS)
    except KeyboardInterrupt:
        raise
    except BaseException:  # raised by its own method; the type still counts
        return ""


def _is_cell(filename):
    return filename.startswith("<ipython-input-") or "ipykernel_" in filename


def _clean(text, characters):
    return str(text)[:characters].encode("utf-8", "replace").decode()


def _described(names, name):
    if name not in names:
        return {"missing": True}
    value = names[name]
    if callable(value):
        return {"function": True}
    try:
        if isinstance(value, Iterator):  # read, and put back
            ahead = list(itertools.islice(value, ITEMS + 1))
            names[name], value = itertools.chain(ahead, value), ahead
        return {"value": encode(value)}
    except KeyboardInterrupt:
        raise
    except BoundaryError as error:
        return {"refused": _clean(error, MESSAGE_CHARACTERS)}
    except BaseException as error:  # a value whose own methods raise
        return {"refused": f"a value that raises {error_of(error)['type']} when it is looked at"}


def _limit(limits):
    """Limit this process and its children; set NPROC only if the user's number of processes is known."""
    for what, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, math.ceil(limits["total_s"])),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        most = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        resource.setrlimit(what, (most, most))


def main():
    end_with_parent()
    os.environ[GRADING] = "1"
    shell = Shell()
    pipe = MessagePipe()
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), CapturedText(), CapturedText()
    sys.path.insert(0, "")  # as in a notebook, but only after the imports above
    limits = {}

    def answer(request):
        match request["do"]:
            case "start":
                limits.update(request["limits"])
                _limit(limits)
                return {}
            case "run":
                return shell.run(request["source"], limits["printed_bytes"])
        return respond(shell.names, request)

    pipe.serve(answer)


if __name__ == "__main__":
    main()
