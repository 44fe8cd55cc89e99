"""Stop what runs in this process when the kernel is interrupted.

Signals reach the main thread only, and JupyterLab lets the clicks of widgets be handled beside it.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator


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
