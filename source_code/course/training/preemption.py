"""The warning that a job will soon be ended, which a scheduler gives its processes as SIGURG."""

import signal

from ddl.records.folder import RunFolder


class Notice:
    """Whether this process has been told, by SIGURG, that its job will soon be ended.

    Outside a run the signal stays ignored, as shells and launchers do: there is no folder for a checkpoint. Make one
    in the main thread only: Python handles signals nowhere else.
    """

    def __init__(self):
        self.given = False
        if RunFolder.here():
            signal.signal(signal.SIGURG, self._give)
            # A library's system call that waits at that moment goes on instead of failing with EINTR.
            signal.siginterrupt(signal.SIGURG, False)
            # `ddl.rank` blocks the signal from the start: one that came earlier is delivered now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGURG])

    def _give(self, number, frame):
        self.given = True
