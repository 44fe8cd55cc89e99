"""Work on one student after another in processes of their own, several at a time."""

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

from ddl.records.log import last_lines
from ddl.records.machine import usable_cores
from ddl.start.fast_exit import end_with_parent
from ddl.text import plural
from line import Line
from marking.course import Course

POLL_S = 0.2


def each(
    course: Course,
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
                active.append(_Process(course, title, waiting.popleft(), work))
                active[-1].start()
            wait([process.sentinel for process in active], POLL_S)
            line.show(f"{count} done, at work: {', '.join(process.student for process in active)}")
            for process in [each for each in active if not each.is_alive() or time.monotonic() > each.begun + limit_s]:
                active.remove(process)
                count += 1
                detail = done(process.student, process.failure(limit_s), process.log)
                left_s = (time.monotonic() - begun) / count * (len(students) - count)
                line.title, line.name = f"{verb} {count:>3} of {len(students)}", process.student
                line.end(f"{detail}  {f'{left_s:.0f} s left' if left_s >= 1 else ''}".rstrip())
                line.title, line.name = verb, ""
    finally:
        for process in active:
            process.kill()  # the sandbox of a hand-in ends with it
            process.join()


class _Process(multiprocessing.get_context("fork").Process):
    """A fork of this process, with nbgrader already imported, that works on one student."""

    def __init__(self, course, title, student, work):
        super().__init__()
        self._course, self._work, self._parent = course, work, os.getpid()
        self._log_name = f"{title.replace(' ', '-')}-{student}"
        self.student, self.log, self.begun = student, course.log_path(self._log_name), time.monotonic()

    def run(self):
        end_with_parent()
        if os.getppid() != self._parent:
            os._exit(1)
        # The terminal's interrupt reaches all processes; the parent ends this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with self._course.log(self._log_name):
            try:
                self._work(self.student)
            except Exception as error:
                traceback.print_exc()
                print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
                sys.exit(1)

    def failure(self, limit_s):
        """Return how the work failed, or an empty text."""
        late = self.is_alive()
        self.kill()
        self.join()
        if late:
            return f"it took more than {limit_s:.0f} s"
        if self.exitcode == 1:
            return "".join(last_lines(self.log, 1))
        return f"its process ended with status {self.exitcode}" if self.exitcode else ""
