"""Stop what runs in this process: after a time, or when the kernel is interrupted.

Signals reach the main thread only, and JupyterLab lets the clicks of widgets be handled beside it.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

__all__ = ["TimeUp", "at_most", "in_main_thread", "interruptible"]

AGAIN_S = 1.0  # for code that catches everything, and goes on


class TimeUp(KeyboardInterrupt):
    """It took too long; no `except Exception` catches it."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` after so many seconds; in another thread than the main one nothing is limited.

    Code that catches everything meets it again every second. On Python 3.10 an endless loop of nothing but such a
    ``try`` cannot be stopped, by Ctrl-C neither: restart its kernel.
    """
    if not _main():
        yield
        return

    def stop(*_):
        raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    others = signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *others)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt in the main thread, as in a cell; an idle kernel ignores it."""
    if not _main():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def in_main_thread(act: Callable[[], object]) -> None:
    """Call `act` in the main thread of a notebook's kernel, at once if this is it, else as soon as it is idle."""
    from IPython import get_ipython

    if _main():
        act()
    else:
        get_ipython().kernel.io_loop.add_callback(act)


def _main():
    return threading.current_thread() is threading.main_thread()
