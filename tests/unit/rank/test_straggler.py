"""Which rank the others wait for, from samples of who is at work."""

import os
import signal
import sys

import pytest

from ddl.rank.straggler import SAMPLES, Straggler, at_work
from helpers import started, until


@pytest.mark.parametrize(
    "shares, found",
    [
        ((0.3, 1.0), 1),
        ((1.0, 0.4, 0.3), 0),
        ((0.9, 1.0), None),
        ((0.1, 0.1), None),
        ((0.3, 1.0, 0.9), None),
        ((1.0,), None),
    ],
)
def test_a_straggler_is_at_work_while_all_others_mostly_wait(shares, found):
    straggler = Straggler()
    samples = [[number % 10 < 10 * share for share in shares] for number in range(3 * SAMPLES)]
    answers = [straggler.add(sample) for sample in samples]
    assert answers[: SAMPLES - 1] == [None] * (SAMPLES - 1)  # a moment says nothing
    assert set(answers[SAMPLES:]) == {found}


def test_who_waits_is_not_at_work_and_who_is_stopped_would_be():
    code = "import time; print(flush=True)\nwhile True: time.sleep(1)"
    with started(sys.executable, "-c", code) as process:
        process.stdout.readline()
        until(lambda: not at_work(process.pid), 10)
        process.send_signal(signal.SIGSTOP)
        until(lambda: at_work(process.pid), 10)
    assert at_work(os.getpid()) and not at_work(process.pid)
