"""The sandbox in which a submission's code runs while it is marked.

`start_worker` is for `course.grader.grade_notebook`. In bubblewrap, a process sees a read-only system, the Python
environment and the course's package; it has a private folder of limited size, no network, no processes but its own, and
fewer system calls. Without bubblewrap, nothing is run.

A sandbox ends with the thread that started it, so grade a submission in one thread.
"""

import contextlib
import os
import secrets
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import psutil

import ddl
from course.grader.launches import launcher_command
from course.grader.limits import Limits
from course.grader.worker_process import Channel, worker_command
from ddl.errors import CourseError

ROOT = Path(__file__).resolve().parents[2]
HOSTS = Path(__file__).with_name("hosts")  # this file, and no other of the folder, is seen in a sandbox
NOBODY = 65534  # a submission's group when root marks it
# Each sandbox has a separate user: root has no limit of processes, and a user's limit counts all sandboxes.
USERS = range(2**30, 2**31)
WATCH_EVERY_S = 0.1
WORK = "/tmp/work"
# For the training of a challenge's submission; `course.challenge.clock` limits its time and memory.
TRAINER = Limits(total_s=3600.0, processes=64)
# For the ranks of a script: as above, and each of three ranks has threads of TensorFlow's and of Horovod's.
RANKS = Limits(memory_bytes=4 * 2**30, processes=128)
ADDRESSES_BYTES = 16 * 2**30
ENVIRONMENT = {
    "PATH": f"{sys.prefix}/bin:/usr/bin:/bin",
    "HOME": WORK,
    "USER": "student",
    "LANG": "C.UTF-8",
    "DDL_VIEW": "plain",
    "MPLBACKEND": "Agg",
    # One thread, as others are marked at the same time; and each thread reserves address space, as does each of
    # the C library's memory pools, one per thread by default.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}
ADVICE = (
    "Submissions run only in a sandbox. Install bubblewrap 0.8 or later (Debian, Ubuntu 24.04: "
    "`apt install bubblewrap`) on a machine where user namespaces are allowed, or where you are root."
)


class SandboxMissing(CourseError, OSError):
    """bubblewrap does not work here; the message has instructions."""


def start_worker(limits: Limits) -> Channel:
    """Start a worker in a sandbox; it is ended when it has too many processes or uses too much memory."""
    find()
    return _start(partial(_Watched, limits), limits, worker_command())


def start_launcher(limits: Limits) -> Channel:
    """Start the process that launches a submission's files on ranks, as `start_worker` does."""
    find()
    limits = replace(RANKS, total_s=limits.total_s)
    return _start(partial(_Watched, limits), limits, _limited(limits, launcher_command()))


def start_trainer(command: list[str], files: Sequence[int]) -> Channel:
    """Start the training of a challenge's submission, which inherits these descriptors."""
    find()
    return _start(Channel, TRAINER, _limited(TRAINER, command), files)


def _limited(limits, command):
    """Return the command with limits for each of its processes."""
    limit = [f"--as={ADDRESSES_BYTES}", f"--cpu={limits.total_s:.0f}", f"--fsize={limits.file_bytes}", "--core=0"]
    return [_program("prlimit"), *limit, "--", *command]


@cache
def find() -> None:
    """Raise SandboxMissing unless a command really runs in a sandbox here."""
    run = partial(subprocess.run, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    try:
        ran = _start(run, Limits(), [sys.executable, "-I", "-c", "import course.grader.worker"])
    except (OSError, subprocess.TimeoutExpired) as trouble:
        raise SandboxMissing(f"{ADVICE} ({trouble})") from None
    if ran.returncode:
        last_line = "".join(ran.stderr.strip().splitlines()[-1:])
        raise SandboxMissing(f"{ADVICE} ({last_line or f'bwrap ended with status {ran.returncode}'})")


def bubblewrap(limits: Limits, command: list[str], seccomp: int) -> list[str]:
    """Return the command line that runs `command` in bubblewrap; `seccomp` is a descriptor of the filter's file."""
    program, root = _program("bwrap"), os.geteuid() == 0
    # Root makes the sandbox as root, who can read folders closed to others, and is nobody inside: root in a user
    # namespace would be exempt from the limit of processes.
    spaces = ["ipc", "pid", "net", "uts", "cgroup-try"] if root else ["all", "user"]
    # A few more than the watcher allows, as bubblewrap has some itself: the watcher then sees a fork bomb.
    most = limits.processes + 8 + (0 if root else _threads_of(os.geteuid()))
    line = [_program("prlimit"), f"--nproc={most}", "--", program, *(f"--unshare-{space}" for space in spaces)]
    line += ["--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox", "--seccomp", str(seccomp)]
    line += _system()
    line += ["--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp"):
        line += ["--perms", "1777", "--size", str(limits.folder_bytes), "--tmpfs", folder]
    line += ["--perms", "1777", "--dir", WORK, "--chdir", WORK]
    line += _python()  # after the empty folders, as it may be in one of them
    # The files that bubblewrap makes are in memory without a size limit.
    line += ["--remount-ro", "/dev", "--remount-ro", "/"]
    for name, value in ENVIRONMENT.items():
        line += ["--setenv", name, value]
    if root:
        user = [f"--reuid={secrets.choice(USERS)}", f"--regid={NOBODY}", "--clear-groups"]
        command = [_program("setpriv"), *user, "--inh-caps=-all", "--bounding-set=-all", "--", *command]
    return [*line, "--", *command]


def _start(start, limits, command, files=()):
    """Call `start` with the command line that runs `command` in a sandbox, and the descriptors that it inherits."""
    descriptor = os.memfd_create("seccomp")
    try:
        os.write(descriptor, system_calls())
        os.lseek(descriptor, 0, os.SEEK_SET)
        # An empty environment, because bubblewrap's own process in the sandbox could be read.
        return start(bubblewrap(limits, command, descriptor), env={}, pass_fds=(descriptor, *files))
    finally:
        os.close(descriptor)


def _program(name):
    found = shutil.which(name)
    if found is None:
        raise FileNotFoundError(f"there is no `{name}` here")
    return found


def _system():
    """Return the binds of programs and libraries, with what /etc needs to find them."""
    line = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(folder):
            line += ["--symlink", os.readlink(folder), folder]
        elif os.path.isdir(folder):
            line += ["--ro-bind", folder, folder]
    line += ["--dir", "/etc"]
    for path in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        line += ["--ro-bind-try", path, path]
    # Gloo asks for the address of the host's name, and ends without a word where there is none.
    line += ["--ro-bind", str(HOSTS), "/etc/hosts"]
    return line


def _python():
    """Return the binds of this Python, its packages and the course's."""
    folders = [sys.prefix, sys.base_prefix, str(Path(ddl.__file__).parents[1])]
    folders += [os.path.realpath(folder) for folder in folders]
    line, bound = [], [Path("/usr")]
    for folder in sorted(map(Path, set(folders))):
        if not any(folder.is_relative_to(other) for other in bound):
            bound.append(folder)
            # bubblewrap would make parent folders that only their owner can enter.
            for parent in reversed(folder.parents[:-1]):
                line += ["--dir", str(parent)]
            line += ["--ro-bind", str(folder), str(folder)]
    # python is often a link to a link, and intermediate links are in folders that are not bound.
    hop = Path(sys.executable)
    while hop.is_symlink():
        target = Path(os.readlink(hop))
        if not any(hop.is_relative_to(folder) for folder in bound):
            line += ["--symlink", str(target), str(hop)]
        hop = hop.parent / target
    return line


def _threads_of(uid):
    """Count a user's threads: older kernels apply the limit of processes to those outside the sandbox too."""
    processes = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(about["num_threads"] or 0 for about in processes if about["uids"] and about["uids"].real == uid)


# ---------------------------------------------------------------- system calls

# By number on x86-64, from the kernel's table. Namespaces and mounts would make file systems
# without a limit of size; memfd and System V memory belongs to no process that could be counted;
# keys are not kept apart by any namespace; the rest has no use in a notebook.
REFUSED = {
    "shmget": 29, "ptrace": 101, "pivot_root": 155, "mount": 165, "umount2": 166, "add_key": 248,
    "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308,
    "memfd_create": 319, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsmount": 432, "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
CLONE, CLONE3 = 56, 435
NEW_NAMESPACES = 0x7E020080  # the flags of clone() that make one
X86_64, X32 = 0xC000003E, 0x40000000
EPERM, ENOSYS = 1, 38
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000


def system_calls():
    """Return the filter of system calls, as a program for the kernel's packet filter."""

    def step(code, value, yes=0, no=0):
        return struct.pack("=HBBI", code, yes, no, value)

    refuse = step(RETURN, ERROR | EPERM)
    # clone3() hides its flags from a filter; without it, libc uses clone().
    absent = step(RETURN, ERROR | ENOSYS)
    program = [
        step(LOAD, 4), step(EQUAL, X86_64, yes=1), absent,
        step(LOAD, 0), step(AT_LEAST, X32, no=1), absent,
        step(EQUAL, CLONE3, no=1), absent,
    ]  # fmt: skip
    for number in REFUSED.values():
        program += [step(EQUAL, number, no=1), refuse]
    program += [step(EQUAL, CLONE, no=3), step(LOAD, 16), step(ANY_BIT, NEW_NAMESPACES, no=1), refuse]
    program.append(step(RETURN, ALLOW))
    return b"".join(program)


# ---------------------------------------------------------------- watching


class _Watched(Channel):
    """A process whose own processes are counted from outside."""

    def __init__(self, limits, command, **options):
        super().__init__(command, **options)
        self._limits = limits
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def kill(self):
        self._over.set()
        self._watcher.join()
        super().kill()

    def _watch(self):
        while not self._over.wait(WATCH_EVERY_S):
            self.why = self.why or _excess(self.pid, self._limits.processes, self._limits.memory_bytes)
            if self.why:
                super().kill_all()


def _excess(pid, most, memory_bytes):
    """Say what the processes below `pid` have too much of; None where nothing."""
    try:
        tree = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return None
    count = memory = 0
    for process in tree:
        with contextlib.suppress(psutil.Error):
            count += process.num_threads()
            memory += process.memory_info().rss
    # Near the hard limit: better ended than crippled.
    if count > most:
        return f"it had more than {most} processes and threads"
    if memory <= memory_bytes:
        return None
    # Shared pages were counted for each process: now count them proportionally.
    memory = 0
    for process in tree:
        with contextlib.suppress(psutil.Error):
            memory += process.memory_full_info().pss
    if memory > memory_bytes:
        return f"it took more than {memory_bytes / 2**20:,.0f} MiB of memory"
    return None
