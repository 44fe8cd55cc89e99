"""A process whose work a fork of a template does: it hands over what it has, and ends as the fork ends.

Ranks and horovodrun call `hand_over` first. The standard library only: every start pays for what is imported here.
"""

import os
import resource
import signal
import sys
from contextlib import suppress

from ddl.launcher import warm

__all__ = ["hand_over", "script_of"]

NEVER = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


def hand_over(module: str, script: str = "") -> None:
    """Let a fork of the template run ``main()`` of a module in this process's place.

    It returns only where this process has to do the work itself: outside of a run, where the planned line says so
    (``--start cold``), in tasks of Slurm or under MPI, where no template can stand for this process, and for a script
    that names a variable which imports read.
    """
    words = sys.argv[1:]
    if "DDL_RUN_DIR" not in os.environ or not warm.allowed() or _says_cold(words):
        return
    if script:
        with suppress(OSError, UnicodeDecodeError), open(script, encoding="utf-8") as file:
            if warm.named_at_import(file.read()):
                return
    with suppress(OSError, ValueError):
        own = warm.identity()
        connection = warm.connect(warm.address(own))
        if connection is None:
            return
        folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        connection.settimeout(warm.READY_S)
        request = {"do": "fork", "module": module, "identity": own, **_own_state()}
        warm.send(connection, request, (0, 1, 2, folder))
        answer = warm.receive(connection)
        os.close(folder)
        if answer is None or "pid" not in answer[0]:
            connection.close()
            return
        _follow(connection)


def script_of(words: list[str]) -> str:
    """The script in a worker's command: what follows its options, each with a value (`RankCommand`)."""
    at = 0
    while at < len(words) and words[at].startswith("--"):
        at += 2
    return words[at] if at < len(words) else ""


def _says_cold(words: list[str]) -> bool:
    return ("--start", "cold") in zip(words, words[1:])  # noqa: RUF007 - itertools is not imported for this


def _own_state() -> dict:
    """What a process has of its own, and a fork can take over."""
    ignored = [
        number
        for number in range(1, signal.NSIG)
        if number not in (32, 33) and signal.getsignal(number) == signal.SIG_IGN
    ]
    umask = os.umask(0)
    os.umask(umask)
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "executable": sys.executable,
        "environment": dict(os.environ),
        "umask": umask,
        "limits": {name: resource.getrlimit(number)[0] for name, number in warm.LIMITS.items()},
        "cores": sorted(os.sched_getaffinity(0)),
        "ignored": ignored,
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    }


def _follow(connection) -> None:
    """Pass signals on, wait for the fork's end, and end in the same way."""

    def pass_on(number, frame):
        with suppress(OSError):
            connection.send(bytes([number]))

    for number in signal.valid_signals() - NEVER:
        with suppress(OSError, ValueError):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    connection.settimeout(None)
    answer = None
    with suppress(OSError, ValueError):
        answer = warm.receive(connection)
    if answer is None:
        print("the template of this process has been killed, and this process with it", file=sys.stderr, flush=True)
        status = signal.SIGKILL
    else:
        status = answer[0]["status"]
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the fork has left its own
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
