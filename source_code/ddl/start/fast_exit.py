"""Run a rank's main function and end its process as the interpreter would, without tearing down libraries.

Tearing down TensorFlow, first its modules and then its tables in C++, takes most of a second and frees memory that the
kernel frees a moment later.
"""

import atexit
import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# This package and its neighbors: their modules are left alone, and scripts directly in this folder are not.
PACKAGES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")) + os.sep

libc = ctypes.CDLL(None)


def end_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it is gone."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def reset_signals() -> None:
    """Undo what this process has inherited that would hide how its children end: SIGCHLD ignored, signals blocked."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def adopt_orphans() -> None:
    """Adopt the orphans of all descendants of this process, in any session."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def end_orphans() -> None:
    """Kill the children of this process's main thread, where orphans go, and then those that they leave behind."""
    with contextlib.suppress(OSError):  # no children, or a kernel that does not list them
        while orphans := list(map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())):
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
            for pid in orphans:
                os.waitpid(pid, 0)


def fork() -> int:
    """Fork like `os.fork`; the child is killed when this process is gone."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        end_with_parent()
        if os.getppid() != parent:
            os._exit(1)
    return pid


def exit_status(error: BaseException) -> int:
    """Return the exit status of an interpreter that ends with this exception."""
    if not isinstance(error, SystemExit):
        return 1
    return error.code & 0xFF if isinstance(error.code, int) else int(error.code is not None)


def run_and_exit(main: Callable[[], object]) -> NoReturn:
    """Call `main` and end the process with the status that the interpreter would give it."""
    status = 0
    try:
        main()
    except BaseException as error:
        status = exit_status(error)
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        elif not isinstance(error.code, (int, type(None))):
            print(error.code, file=sys.stderr)
    _exit(status)


def _exit(code: int) -> NoReturn:
    """Finish threads, exit handlers, the script's objects and streams, in the interpreter's order."""
    gc.disable()  # while another thread collects, gc.collect() does nothing
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect(1)  # as the interpreter does first; of a file and its buffers, the file is then finalized first
    # A module that nothing refers to is garbage with all its names: finalizers run while the names still exist.
    left = [weakref.ref(sys.modules.pop(name)) for name in reversed(list(sys.modules)) if _is_script(sys.modules[name])]
    gc.collect()
    if alive := [module for each in left if (module := each())]:
        for module in alive:
            _clear(vars(module))
        del alive, module
        gc.collect()
    flushed = flush()
    os._exit(code if flushed else code or 120)  # the interpreter's status for this


def flush() -> bool:
    """Write what Python and C code have printed so far; return whether Python's streams could be written."""
    flushed = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except (AttributeError, OSError, ValueError):  # replaced, or its disk is full
            flushed = False
    libc.fflush(None)
    return flushed


def _clear(names: dict) -> None:
    """Set the names of a module to None in the interpreter's order: private ones first, then all but builtins."""
    for private in (True, False):
        for name in list(names):
            if isinstance(name, str) and (name[:1] == "_" and name[1:2] != "_") == private and name != "__builtins__":
                names[name] = None


def _is_script(module: object) -> bool:
    """Return whether a module is the user's, not part of a library, the interpreter or this project's packages."""
    name, path = getattr(module, "__name__", ""), getattr(module, "__file__", None)
    if name == "__main__":
        return True
    if not path or path.startswith((sys.prefix, sys.base_prefix)):
        return False
    return not path.startswith(PACKAGES) or os.path.dirname(path) + os.sep == PACKAGES
