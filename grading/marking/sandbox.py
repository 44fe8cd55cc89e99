"""The sandbox in which a submission's code runs while it is marked.

`start_worker` is for `course.grader.grade_notebook`. In bubblewrap, a process sees a read-only system, the Python
environment and the course's package; it has a private folder of limited size, no network, no processes but its own, and
fewer system calls. Without bubblewrap, nothing is run.

A sandbox ends with the thread that started it, so grade a submission in one thread.
"""

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
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
    "Submissions run only in a sandbox. Install bubblewrap 0.8 or later and libseccomp (Debian, Ubuntu 24.04: "
    "`apt install bubblewrap libseccomp2`) on a machine where user namespaces are allowed, or where you are root."
)
# bubblewrap's messages if AppArmor or the kernel forbids namespaces to ordinary users.
FORBIDDEN = re.compile("uid map: Permission denied|RTM_NEWADDR: Operation not permitted|No permissions to creat")
PERMISSION = (
    "Submissions run only in a sandbox, and this system forbids bubblewrap to make one. On Ubuntu 24.04 and later, "
    "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0` allows it until the next start. Or run this as root."
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
    return _start(partial(_Watched, limits), limits, launcher_command())


def start_trainer(command: list[str], files: Sequence[int]) -> Channel:
    """Start the training of a challenge's submission, which inherits these descriptors."""
    find()
    return _start(Channel, TRAINER, command, files)


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
        advice = PERMISSION if FORBIDDEN.search(last_line) else ADVICE
        raise SandboxMissing(f"{advice} ({last_line or f'bwrap ended with status {ran.returncode}'})")


def bubblewrap(limits: Limits, command: list[str], seccomp: int) -> list[str]:
    """Return the command line that runs `command` in bubblewrap; `seccomp` is a descriptor of the filter's file."""
    program, root = _program("bwrap"), os.geteuid() == 0
    # Root makes the sandbox as root, who can read folders closed to others, and is nobody inside: root in a user
    # namespace would be exempt from the limit of processes.
    spaces = ["ipc", "pid", "net", "uts", "cgroup-try"] if root else ["all", "user"]
    # A few more than the watcher allows, as bubblewrap has some itself: the watcher then sees a fork bomb.
    most = limits.processes + 8 + (0 if root else _threads_of(os.geteuid()))
    line = [_program("prlimit"), f"--nproc={most}", f"--as={ADDRESSES_BYTES}"]
    line += [f"--cpu={limits.total_s:.0f}", f"--fsize={limits.file_bytes}", "--core=0"]
    line += ["--", program, *(f"--unshare-{space}" for space in spaces)]
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
        write_filter(descriptor)
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
    """Count a user's threads: the limit of processes holds for those outside the sandbox as well."""
    processes = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    return sum(about["num_threads"] or 0 for about in processes if about["uids"] and about["uids"].real == uid)


# ---------------------------------------------------------------- system calls

# Namespaces and mounts would make file systems without a limit of size; memfd and System V memory belongs to no process
# that could be counted; keys are not kept apart by any namespace; the rest has no use in a notebook.
REFUSED = (
    "unshare", "setns", "mount", "umount2", "pivot_root", "open_tree", "move_mount", "fsopen", "fsmount",
    "mount_setattr", "shmget", "memfd_create", "memfd_secret", "add_key", "request_key", "keyctl", "ptrace", "bpf",
    "perf_event_open", "userfaultfd", "io_uring_setup",
)  # fmt: skip
NEW_USER = 0x10000000  # the flag of clone() for a user namespace, without which nobody but root makes others
ALLOW, ERROR, MASKED_EQUAL = 0x7FFF0000, 0x00050000, 7  # of libseccomp


def write_filter(descriptor: int) -> None:
    """Write the filter of system calls, as a program for the kernel's packet filter."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ALLOW))

    def refuse(name, error, compared=None):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if library.seccomp_rule_add_array(rules, ERROR | error, number, int(compared is not None), compared):
            raise OSError(f"libseccomp refuses no system call {name}")

    for name in REFUSED:
        refuse(name, errno.EPERM)
    first_argument = (ctypes.c_uint64 * 3)(MASKED_EQUAL << 32, NEW_USER, NEW_USER)  # number 0, in the lower half
    refuse("clone", errno.EPERM, first_argument)
    refuse("clone3", errno.ENOSYS)  # it hides its flags from a filter; without it, libc uses clone()
    library.seccomp_export_bpf(rules, descriptor)
    library.seccomp_release(rules)


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
            memory += process.memory_full_info().pss  # shared pages in parts
    if count > most:  # near the hard limit: better ended than crippled
        return f"it had more than {most} processes and threads"
    return f"it took more than {memory_bytes / 2**20:,.0f} MiB of memory" if memory > memory_bytes else None
