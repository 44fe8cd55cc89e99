"""A fork of a template, from its first instruction to its end.

It takes over what the process that asked for it has, runs the same module, and ends as an interpreter does.
"""

import ctypes
import importlib
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable

from ddl.launcher import warm
from ddl.rank.ending import run_and_end

__all__ = ["Fork", "blas_threads", "set_blas_threads", "show_as"]

PR_SET_MM, PR_SET_MM_MAP = 35, 14

libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
_shown: list = []  # memory that the kernel reads for as long as this process lives


class Fork:
    """A fork of the template that becomes the process that asked for it."""

    def __init__(self, request: dict, files: list[int]) -> None:
        self._request, self._files = request, files

    def become(self) -> None:
        """Take over what the other process has, run its module's ``main()``, and end; does not return."""

        def run() -> None:
            self.take_over()
            importlib.import_module(self._request["module"]).main()

        run_and_end(run)

    def take_over(self) -> None:
        request = self._request
        os.setsid()
        *streams, folder = self._files
        for number, file in enumerate(streams):
            os.dup2(file, number)
        os.fchdir(folder)
        for file in self._files:
            os.close(file)
        os.umask(request["umask"])
        for name, soft in request["limits"].items():
            number = warm.LIMITS[name]
            resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))
        os.sched_setaffinity(0, request["cores"])
        for number in range(1, signal.NSIG):
            if number in request["ignored"] and signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv, sys.orig_argv = list(request["argv"]), list(request["orig_argv"])
        sys.executable = request["executable"]
        show_as(request["orig_argv"], request["environment"])
        _forget_random_state()


def _forget_random_state() -> None:
    """Draw anew what was drawn while importing; the module `random` does so by itself."""
    if numpy := sys.modules.get("numpy.random"):
        numpy.seed()
    if processes := sys.modules.get("multiprocessing.process"):
        processes.current_process().authkey = os.urandom(32)
    if "tempfile" in sys.modules:
        sys.modules["tempfile"].tempdir = None  # TMPDIR may be another


def set_blas_threads() -> None:
    """Give every OpenBLAS that is loaded the number of threads that it would have started with."""
    names = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
    threads = next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), 0)
    for function in _blas("set_num_threads"):
        function(threads or len(os.sched_getaffinity(0)))


def blas_threads() -> list[int]:
    """The number of threads of every OpenBLAS that is loaded."""
    return sorted(function() for function in _blas("get_num_threads"))


def _blas(name: str) -> list[Callable]:
    """A function of each OpenBLAS that is loaded; their builds have various names for it."""
    variants = [f"{prefix}openblas_{name}{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")]
    libraries = [ctypes.CDLL(path) for path in sorted(_libraries("openblas"))]
    return [getattr(library, variant) for library in libraries for variant in variants if hasattr(library, variant)]


def _libraries(name: str) -> set[str]:
    with open("/proc/self/maps") as file:
        return {line.split(maxsplit=5)[5].strip() for line in file if name in line}


def show_as(argv: list[str], environment: dict[str, str]) -> None:
    """Show these arguments and variables in ``/proc``, where `ps` and this package look for a run's processes.

    Raises
    ------
    OSError
        Where the kernel does not let a process say so (Linux without CONFIG_CHECKPOINT_RESTORE).
    """
    arguments = b"".join(os.fsencode(word) + b"\0" for word in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    text = ctypes.create_string_buffer(arguments + variables)
    start = ctypes.addressof(text)
    middle, end = start + len(arguments), start + len(arguments) + len(variables)
    with open("/proc/self/stat") as file:
        fields = [0, 0, *file.read().rpartition(")")[2].split()]  # numbered from 1, as in proc(5)
    code, data, brk, stack = fields[25:27], fields[44:46], fields[46], fields[27]
    numbers = (*code, *data, brk, libc.sbrk(0), stack, start, middle, middle, end)
    # struct prctl_mm_map: those 11 addresses, no new auxiliary vector, no new file.
    layout = struct.pack("=11QQIi", *map(int, numbers), 0, 0, -1)
    if libc.prctl(PR_SET_MM, PR_SET_MM_MAP, layout, ctypes.c_ulong(len(layout)), 0):
        number = ctypes.get_errno()
        raise OSError(number, f"this kernel shows no other arguments for a process: {os.strerror(number)}")
    _shown.append(text)
