"""A training in a separate process, timed and limited from outside."""

import base64
import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import psutil

from course.challenge.rules import BASELINE_TIMES, RUN_TIMEOUT_S, START_S
from course.grader.worker_process import Channel, Ended, Late
from ddl.errors import CourseError

COMMAND = [sys.executable, "-I", "-m", "course.challenge.trainer"]
WATCH_EVERY_S = 0.5
SLACK_S = 2.0  # processor time beyond one core's, for counters that lag behind
REPLY_BYTES = 2**20


class Failed(CourseError):
    """A training that failed or broke a limit."""


def start_trainer(command: list[str], files: Sequence[int]) -> Channel:
    """Start the training process without a sandbox, for attendees' own files on their own machines."""
    return Channel(command, pass_fds=tuple(files))


class Clock:
    """The processor time, wall-clock time and memory of one training, as the operating system counts them.

    The training gets one `core`, and ends when `stop` is set. The `baseline`'s clock limits its time and memory.
    """

    def __init__(self, core: int, stop: threading.Event, baseline: "Clock | None" = None):
        self.core, self.stop, self.baseline = core, stop, baseline
        self.cpu_s = self.wall_s = 0.0
        self.peak_bytes = 0
        self._over = threading.Event()

    def run(self, start: Callable, images: int, request: dict, private: Callable[[], np.ndarray]) -> dict:
        """Train, then classify the private images; return both replies in one dictionary, or raise Failed.

        `images` is the descriptor of the training images. `private` is called after the training.
        """
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.core})  # of this thread; what it starts inherits it
        try:
            channel = start(COMMAND, [images])
        finally:
            os.sched_setaffinity(0, mine)
        watcher = threading.Thread(target=self._watch, args=(channel,), daemon=True)
        try:
            self._ask(channel, {}, START_S)  # it has imported TensorFlow; the file comes after the clock has started
            self._began = time.monotonic()
            self._given, self._before_s, _ = self._usage(channel)
            watcher.start()
            trained = self._ask(channel, {"do": "train", "images": images, **request}, RUN_TIMEOUT_S)
            # The clock goes on until the answers are here: what the file does now counts as well.
            shown = base64.b64encode(private().tobytes()).decode()
            answers = self._ask(channel, {"do": "predict", "images": shown}, RUN_TIMEOUT_S)
            if excess := self._measure(channel):
                raise Failed(excess)
            self.wall_s = time.monotonic() - self._began
            return trained | answers
        finally:
            self._over.set()
            if watcher.is_alive():
                watcher.join()
            channel.kill()  # with everything that it started

    def _ask(self, channel, request, timeout_s):
        try:
            answer = channel.ask(request, timeout_s, REPLY_BYTES)
        except Late:
            raise Failed(f"no answer within {timeout_s:g} s") from None
        except Ended as error:
            raise Failed(" ".join([str(error), *filter(None, [not channel.why and channel.last_words])])) from None
        if "failed" in answer:
            raise Failed(str(answer["failed"]))
        return answer

    def _watch(self, channel):
        while not self._over.wait(WATCH_EVERY_S):
            channel.why = self._measure(channel)
            if channel.why:
                channel.kill_all()
                return

    def _measure(self, channel):
        """Measure time and memory; return which limit is exceeded, if any."""
        baseline, wall_s = self.baseline, time.monotonic() - self._began
        processes, cpu_s, memory = self._usage(channel)
        self.cpu_s, self.peak_bytes = cpu_s - self._before_s, max(self.peak_bytes, memory)
        if self.stop.is_set():
            return "it was interrupted"
        if set(processes) - set(self._given):
            return "it started another process"
        if self.cpu_s > wall_s + SLACK_S:
            return "it used more than its one core"
        if baseline and baseline.wall_s and wall_s > BASELINE_TIMES * baseline.wall_s:
            return f"it took more than {BASELINE_TIMES} times the time of the baseline"
        if baseline and baseline.peak_bytes and memory > BASELINE_TIMES * baseline.peak_bytes:
            return f"it took more than {BASELINE_TIMES} times the memory of the baseline"
        return None

    @staticmethod
    def _usage(channel):
        """Return a channel's processes, and their processor time (that of ended children included) and memory."""
        processes, cpu_s, memory = [], 0.0, 0
        with contextlib.suppress(psutil.Error):
            top = psutil.Process(channel.pid)
            processes = [top, *top.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.Error):
                cpu_s += sum(process.cpu_times()[:4])
                memory += process.memory_info().rss
        return processes, cpu_s, memory
