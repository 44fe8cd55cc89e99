"""Work on one student after another in processes of their own, several at a time."""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path

import nbformat
from nbformat import v4

from ddl.rank.fast_exit import end_with_parent
from ddl.records.machine import usable_cores
from ddl.text import plural
from line import Line
from marking.course import Course

GRACE_S = 15  # for a process to end its sandbox
POLL_S = 0.2


def each(
    course: Course,
    app,
    title: str,
    students: Sequence[str],
    work: Callable[[str], None],
    done: Callable[[str, str, Path], str],
    limit_s: float,
    at_once: int = 0,
) -> None:
    """Do `work(student)` for everybody, each for at most `limit_s` seconds.

    By default there are as many at once as there are cores. After each, `done(student, failure, log)` returns the end
    of the student's line; `failure` is empty where there was none, and the log has what nbgrader and the work said.
    """
    waiting, active, count, begun = deque(students), [], 0, time.monotonic()
    verb, at_once = title.partition(" ")[0], at_once or usable_cores()
    nbformat.validate(v4.new_notebook())  # compiles nbformat's schema here, once for all forks
    line = Line(verb, plural(len(students), "student"))
    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                active.append(_Process(course, app, title, waiting.popleft(), work))
            wait([process.sentinel for process in active], POLL_S)
            line.show(f"{count} done, at work: {', '.join(process.student for process in active)}")
            for process in [process for process in active if process.over(limit_s)]:
                active.remove(process)
                count += 1
                detail = done(process.student, process.failure(limit_s), process.log)
                left_s = (time.monotonic() - begun) / count * (len(students) - count)
                left = "" if left_s < 1 else f"{left_s:.0f} s left" if left_s < 100 else f"{left_s / 60:.0f} min left"
                line.title, line.name = f"{verb} {count:>3} of {len(students)}", process.student
                line.end(f"{detail}  {left}".rstrip())
                line.title, line.name = verb, ""
    finally:
        for process in active:
            process.terminate()
        for process in active:
            process.end()


class _Process:
    """A fork of this process, with nbgrader already imported, that works on one student."""

    def __init__(self, course, app, title, student, work):
        name = f"{title.replace(' ', '-')}-{student}"
        self.student, self.log = student, course.log_path(name)
        fork = multiprocessing.get_context("fork")
        self._result, result = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_work, args=(course, app, name, work, student, result, os.getpid()))
        self._begun = time.monotonic()
        self._process.start()
        result.close()
        self.sentinel, self.terminate = self._process.sentinel, self._process.terminate

    def over(self, limit_s):
        return not self._process.is_alive() or time.monotonic() > self._begun + limit_s

    def failure(self, limit_s):
        """How the work failed; an empty text where it did not."""
        late = self._process.is_alive()
        self.terminate()
        self.end()
        if late:
            return f"it took more than {limit_s:.0f} s"
        with contextlib.suppress(EOFError):
            return self._result.recv()
        return f"its process ended with status {self._process.exitcode}"

    def end(self):
        self._process.join(GRACE_S)
        self._process.kill()
        self._process.join()


def _work(course, app, name, work, student, result, parent):
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    # The terminal's interrupt reaches all processes; the parent ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    try:
        with course.log(name, app) as log:
            output = os.open(log, os.O_WRONLY | os.O_APPEND)
            os.dup2(output, 1)
            os.dup2(output, 2)
            work(student)
        result.send("")
    except Exception as error:
        traceback.print_exc()
        result.send(f"{type(error).__name__}: {error}".splitlines()[0])
