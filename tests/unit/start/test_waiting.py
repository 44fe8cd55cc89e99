"""Which ranks wait for others."""

import os
import signal
import time
from types import SimpleNamespace

import psutil
import pytest

from ddl.records.folder import STACK_SIGNAL
from ddl.start import waiting
from ddl.start.waiting import SAMPLES, Straggler


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


INSIDE = "File /env/horovod/ops.py, line 1 in allreduce\nFile /course/script.py, line 2 in main"


def test_stack_signal_is_sent_only_if_handled():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    assert waiting.handles_signal(os.getpid(), signal.SIGUSR1) and not waiting.handles_signal(os.getpid(), STACK_SIGNAL)
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize(
    "used_s, stack, answer",
    [(0.01, INSIDE, True), (0.01, INSIDE.split("\n")[1], False), (0.45, INSIDE, False), (None, INSIDE, False)],
)
def test_idle_rank_inside_horovod_is_waiting(monkeypatch, used_s, stack, answer):
    sent = []

    class Rank:
        def __init__(self, pid):
            if used_s is None:
                raise psutil.NoSuchProcess(pid)
            self.used_s = iter((7.0, 7.0 + used_s))

        def status(self):
            return psutil.STATUS_SLEEPING

        def send_signal(self, number):
            sent.append(number)

        def cpu_times(self):
            return SimpleNamespace(user=next(self.used_s), system=1.0)

    monkeypatch.setattr(psutil, "Process", Rank)
    monkeypatch.setattr(waiting, "handles_signal", lambda pid, number: number == STACK_SIGNAL)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr(waiting, "stack_of", lambda path: stack)
    assert waiting.waits(4711, "stack-0.txt") is answer
    assert sent == ([] if used_s is None else [STACK_SIGNAL])
