"""A fork of a template, from its first instruction to its end: it becomes the rank that a supervisor asks for."""

import ctypes
import os
import resource
import signal
import sys
from collections.abc import Callable

from ddl.launcher import warm
from ddl.launcher.commands import RankCommand
from ddl.rank import worker

PROT_READ, MAP_PRIVATE = 1, 2
PYTHON_IGNORES = {signal.SIGPIPE, signal.SIGXFSZ}


def become(request: dict, files: list[int]) -> None:
    """Take over what the rank would have if the supervisor had started it, and be the rank."""
    os.setsid()
    *streams, folder = files
    for number, file in enumerate(streams):
        os.dup2(file, number)
    os.fchdir(folder)
    for file in files:
        os.close(file)
    os.umask(request["umask"])
    for name, soft in request["limits"].items():
        number = warm.LIMITS[name]
        resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))
    os.sched_setaffinity(0, request["cores"])
    _set_signals(request["ignored"])
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    os.environ.clear()
    os.environ.update(request["environment"])
    words = sys.orig_argv = request["words"]
    sys.argv = words[words.index(RankCommand.module) :]
    sys.executable = request["executable"]
    _map(os.path.join(request["environment"]["DDL_RUN_DIR"], "job.json"))
    _forget_random_state()
    worker.main()


def _set_signals(ignored: list[int]) -> None:
    """Handle signals as an interpreter that is started with these ignored; the template may have ignored others."""
    for number in signal.valid_signals() - PYTHON_IGNORES - {signal.SIGKILL, signal.SIGSTOP}:
        usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in ignored else usual)


def _map(path: str) -> None:
    """Map a file into this process and its forks: so `ddl.launcher.processes` finds them. No descriptor stays open."""
    mmap = ctypes.CDLL(None, use_errno=True).mmap
    mmap.restype = ctypes.c_void_p
    mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    file = os.open(path, os.O_RDONLY)
    if mmap(None, 1, PROT_READ, MAP_PRIVATE, file, 0) == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), f"{path} cannot be mapped: {os.strerror(ctypes.get_errno())}")
    os.close(file)


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
    for function in blas_functions("set_num_threads"):
        function(threads or len(os.sched_getaffinity(0)))


def blas_functions(name: str) -> list[Callable]:
    """A function of each OpenBLAS that is loaded; their builds have various names for it."""
    variants = [f"{prefix}openblas_{name}{suffix}" for prefix in ("", "scipy_") for suffix in ("", "64_", "_64")]
    with open("/proc/self/maps") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if "openblas" in line}
    libraries = map(ctypes.CDLL, sorted(paths))
    return [getattr(library, variant) for library in libraries for variant in variants if hasattr(library, variant)]
