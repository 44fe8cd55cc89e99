"""Preemption warnings, which a scheduler sends as SIGURG."""

import signal

from ddl.records.folder import RunFolder


class Preemption:
    """Flag that is set when SIGURG announces the job's end.

    Outside a run, the signal stays ignored, because there is no folder for a checkpoint. Create it in the main thread,
    where Python handles signals.
    """

    def __init__(self):
        self.announced = False
        if RunFolder.here():
            signal.signal(signal.SIGURG, self._announce)
            # A library's blocking system call resumes instead of failing with EINTR.
            signal.siginterrupt(signal.SIGURG, False)
            # `ddl.rank` blocks the signal at the start; an earlier one is delivered now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])

    def _announce(self, number, frame):
        self.announced = True
